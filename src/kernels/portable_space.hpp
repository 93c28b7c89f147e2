// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "kernels/conv_plan.hpp"
#include "tessera/device/kokkos.hpp"

/// Places in up to three dims of space, in device code.
namespace tessera::kernels::portable {

/// The three indices of place `i` within `extent`.
KOKKOS_INLINE_FUNCTION void unfold(const int64_t* extent, std::int64_t i, std::int64_t* at) {
  at[2] = i % extent[2];
  at[1] = i / extent[2] % extent[1];
  at[0] = i / extent[2] / extent[1];
}
KOKKOS_INLINE_FUNCTION std::int64_t place(const int64_t* extent, const std::int64_t* at) {
  return (at[0] * extent[1] + at[1]) * extent[2] + at[2];
}
KOKKOS_INLINE_FUNCTION std::int64_t volume(const int64_t* extent) {
  return extent[0] * extent[1] * extent[2];
}

/// Place in x where output `i` meets it through tap `j`; -1 if that lies outside.
KOKKOS_INLINE_FUNCTION std::int64_t input_place(const ConvPlan& plan, const std::int64_t* i,
                                                const std::int64_t* j) {
  std::int64_t at[kSpace];
  for (int d = 0; d < kSpace; ++d) {
    at[d] = i[d] * plan.stride[d] + j[d] * plan.dilation[d] + plan.base[d];
    if (at[d] < 0 || at[d] >= plan.x[d]) return -1;
  }
  return place(plan.x, at);
}

/// Place of the output that reads x at `i` through tap `j`; -1 if none does.
KOKKOS_INLINE_FUNCTION std::int64_t output_place(const ConvPlan& plan, const std::int64_t* i,
                                                 const std::int64_t* j) {
  std::int64_t at[kSpace];
  for (int d = 0; d < kSpace; ++d) {
    const std::int64_t apart = i[d] - plan.base[d] - j[d] * plan.dilation[d];
    at[d] = apart / plan.stride[d];
    if (apart < 0 || at[d] * plan.stride[d] != apart || at[d] >= plan.y[d]) return -1;
  }
  return place(plan.y, at);
}

}  // namespace tessera::kernels::portable
