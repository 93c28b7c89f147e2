// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/isa/convert.hpp"

#include <string.h>

namespace tessera::kernels::isa::TESSERA_ISA {

void bf16_to_f32(float* to, const uint16_t* from, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t bits = static_cast<uint32_t>(from[i]) << 16;
    memcpy(&to[i], &bits, sizeof bits);
  }
}

void bf16_add(float* to, const uint16_t* from, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    to[i] += __builtin_bit_cast(float, static_cast<uint32_t>(from[i]) << 16);
  }
}

void f32_to_bf16(uint16_t* to, const float* from, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    uint32_t bits;
    memcpy(&bits, &from[i], sizeof bits);
    const uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
    const uint32_t quiet_nan = (bits >> 16) | 0x40u;
    const bool is_nan = (bits & 0x7FFFFFFFu) > 0x7F800000u;
    to[i] = static_cast<uint16_t>(is_nan ? quiet_nan : rounded);
  }
}

}  // namespace tessera::kernels::isa::TESSERA_ISA
