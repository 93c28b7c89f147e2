// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <math.h>

#include <cstdint>

#include "tessera/base/bf16.hpp"
#include "tessera/device/kokkos.hpp"

/// Elements and functions for device code: the C library's names, which host and device compilers
/// have alike.
namespace tessera::kernels::portable {

KOKKOS_INLINE_FUNCTION float load(float x) {
  return x;
}
KOKKOS_INLINE_FUNCTION double load(double x) {
  return x;
}
KOKKOS_INLINE_FUNCTION float load(Bf16 x) {
  return to_float(x);
}
KOKKOS_INLINE_FUNCTION double load(std::int32_t x) {
  return static_cast<double>(x);
}
KOKKOS_INLINE_FUNCTION void store(float& to, double x) {
  to = static_cast<float>(x);
}
KOKKOS_INLINE_FUNCTION void store(double& to, double x) {
  to = x;
}
KOKKOS_INLINE_FUNCTION void store(Bf16& to, double x) {
  to = to_bf16(static_cast<float>(x));
}
KOKKOS_INLINE_FUNCTION void store(std::int32_t& to, double x) {
  to = static_cast<std::int32_t>(x);
}

/// The type in which an element is computed.
template <class T>
struct ComputeOf {
  using Type = float;
};
template <>
struct ComputeOf<double> {
  using Type = double;
};
template <class T>
using Compute = typename ComputeOf<T>::Type;

#define TESSERA_PORTABLE_FUNCTION(name, of_float, of_double) \
  KOKKOS_INLINE_FUNCTION float name(float x) {               \
    return ::of_float(x);                                    \
  }                                                          \
  KOKKOS_INLINE_FUNCTION double name(double x) {             \
    return ::of_double(x);                                   \
  }
TESSERA_PORTABLE_FUNCTION(exponential, expf, exp)
TESSERA_PORTABLE_FUNCTION(logarithm, logf, log)
TESSERA_PORTABLE_FUNCTION(sine, sinf, sin)
TESSERA_PORTABLE_FUNCTION(cosine, cosf, cos)
TESSERA_PORTABLE_FUNCTION(hyperbolic_tangent, tanhf, tanh)
TESSERA_PORTABLE_FUNCTION(error_function, erff, erf)
TESSERA_PORTABLE_FUNCTION(complement, erfcf, erfc)
TESSERA_PORTABLE_FUNCTION(square_root, sqrtf, sqrt)
TESSERA_PORTABLE_FUNCTION(absolute, fabsf, fabs)
TESSERA_PORTABLE_FUNCTION(round_down, floorf, floor)
#undef TESSERA_PORTABLE_FUNCTION

KOKKOS_INLINE_FUNCTION float power(float x, float y) {
  return ::powf(x, y);
}
KOKKOS_INLINE_FUNCTION double power(double x, double y) {
  return ::pow(x, y);
}

template <class T>
KOKKOS_INLINE_FUNCTION T sigmoid(T x) {
  return T(1) / (T(1) + exponential(-x));
}

}  // namespace tessera::kernels::portable
