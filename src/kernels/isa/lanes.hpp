// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "kernels/isa/element.hpp"

// Sums and extrema over a run of elements in a fixed order: lanes side by side, as many on every
// level, added up in chunks of fixed length; chunks are added in double. So a result depends on the
// length alone, and a sum of 40 million f32 numbers is good to 1e-6.
namespace tessera::kernels::isa::TESSERA_ISA {

static const int kLanes = 32;
static const int64_t kChunk = 4096;

TESSERA_LANE int64_t smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}

/// The upper half of the lanes goes to the lower, until one is left.
template <int Width, class C>
TESSERA_LANE C add_lanes(C* lane) {
  if constexpr (Width == 1) {
    return lane[0];
  } else {
#pragma GCC ivdep
    for (int l = 0; l < Width / 2; ++l) lane[l] += lane[l + Width / 2];
    return add_lanes<Width / 2>(lane);
  }
}

/// Sum over j in [0, n) of f(j), a C.
template <class C, class Function>
TESSERA_LANE double sum_lanes(int64_t n, const Function& f) {
  double total = 0.0;
  for (int64_t begin = 0; begin < n; begin += kChunk) {
    const int64_t end = smaller(n, begin + kChunk);
    C lane[kLanes] = {};
    int64_t j = begin;
    for (; j + kLanes <= end; j += kLanes) {
#pragma GCC unroll 1
      for (int l = 0; l < kLanes; ++l) lane[l] += f(j + l);
    }
    C rest = 0;
    for (; j < end; ++j) rest += f(j);
    total += static_cast<double>(add_lanes<kLanes>(lane) + rest);
  }
  return total;
}

/// The larger of two, or a NaN if one is.
template <class C>
TESSERA_LANE C larger(C a, C x) {
  return (x > a) | (x != x) ? x : a;
}

/// Largest f(j), or a NaN if one is; -infinity for n = 0.
template <class C, class Function>
TESSERA_LANE C max_lanes(int64_t n, const Function& f) {
  C lane[kLanes];
  for (int l = 0; l < kLanes; ++l) lane[l] = -static_cast<C>(__builtin_inf());
  int64_t j = 0;
  for (; j + kLanes <= n; j += kLanes) {
#pragma GCC unroll 1
    for (int l = 0; l < kLanes; ++l) lane[l] = larger(lane[l], f(j + l));
  }
  for (; j < n; ++j) lane[0] = larger(lane[0], f(j));
  for (int l = 1; l < kLanes; ++l) lane[0] = larger(lane[0], lane[l]);
  return lane[0];
}

}  // namespace tessera::kernels::isa::TESSERA_ISA
