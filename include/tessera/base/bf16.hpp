// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "tessera/base/function.hpp"

namespace tessera {

/// Storage of a bf16 number: the upper half of an IEEE f32. Its own type, so that overloads tell it
/// from integers.
struct Bf16 {
  std::uint16_t bits;
};

/// Exact.
TESSERA_FUNCTION float to_float(Bf16 x) {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(x.bits) << 16);
}

/// Rounds to nearest, ties to even; overflow gives infinity, a NaN stays a quiet NaN.
TESSERA_FUNCTION Bf16 to_bf16(float x) {
  const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, x);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) {
    return {static_cast<std::uint16_t>((bits >> 16) | 0x40U)};
  }
  return {static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16)};
}

}  // namespace tessera
