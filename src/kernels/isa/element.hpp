// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <stdint.h>

#include "kernels/isa/math.hpp"

// Elements of the three floating types in files that are compiled once for each level.
namespace tessera::kernels::isa::TESSERA_ISA {

/// Storage of a bf16 element; its own type so that templates can tell it from integers.
struct Bf16 {
  uint16_t bits;
};

/// The type in which an element is computed.
template <class T>
struct ComputeOf {
  using Type = T;
};
template <>
struct ComputeOf<Bf16> {
  using Type = float;
};
template <class T>
using Compute = typename ComputeOf<T>::Type;

TESSERA_LANE float load(float x) {
  return x;
}
TESSERA_LANE double load(double x) {
  return x;
}
TESSERA_LANE float load(Bf16 x) {
  return from_bits(static_cast<uint32_t>(x.bits) << 16);
}

TESSERA_LANE void store(float& to, float x) {
  to = x;
}
TESSERA_LANE void store(double& to, double x) {
  to = x;
}
/// Rounded to nearest even; a NaN stays a quiet NaN.
TESSERA_LANE void store(Bf16& to, float x) {
  const uint32_t bits = to_bits(x);
  const uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
  const uint32_t quiet_nan = (bits >> 16) | 0x40u;
  to.bits = static_cast<uint16_t>((bits & 0x7FFFFFFFu) > 0x7F800000u ? quiet_nan : rounded);
}

}  // namespace tessera::kernels::isa::TESSERA_ISA
