// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "kernels/conv_plan.hpp"
#include "kernels/isa/element.hpp"

// Places in up to three dims of space, for loops over channels side by side.
namespace tessera::kernels::isa::TESSERA_ISA {

/// Channels whose values are held at a time.
static const int64_t kChannels = 64;

TESSERA_LANE int64_t place(const int64_t* extent, const int64_t* at) {
  return (at[0] * extent[1] + at[1]) * extent[2] + at[2];
}
TESSERA_LANE int64_t volume(const int64_t* extent) {
  return extent[0] * extent[1] * extent[2];
}

/// f(index) for all indices within `extent`, in order.
template <class Function>
TESSERA_LANE void for_each_place(const int64_t* extent, const Function& f) {
  int64_t at[kSpace];
  for (at[0] = 0; at[0] < extent[0]; ++at[0]) {
    for (at[1] = 0; at[1] < extent[1]; ++at[1]) {
      for (at[2] = 0; at[2] < extent[2]; ++at[2]) f(at);
    }
  }
}

/// Where output `i` meets x through tap `j`; false if that lies outside.
TESSERA_LANE bool meets_input(const ConvPlan& plan, const int64_t* i, const int64_t* j,
                              int64_t* at) {
  for (int d = 0; d < kSpace; ++d) {
    at[d] = i[d] * plan.stride[d] + j[d] * plan.dilation[d] + plan.base[d];
    if (at[d] < 0 || at[d] >= plan.x[d]) return false;
  }
  return true;
}

/// The output that reads x at `i` through tap `j`; false if none does.
TESSERA_LANE bool meets_output(const ConvPlan& plan, const int64_t* i, const int64_t* j,
                               int64_t* at) {
  for (int d = 0; d < kSpace; ++d) {
    const int64_t apart = i[d] - plan.base[d] - j[d] * plan.dilation[d];
    at[d] = apart / plan.stride[d];
    if (apart < 0 || at[d] * plan.stride[d] != apart || at[d] >= plan.y[d]) return false;
  }
  return true;
}

}  // namespace tessera::kernels::isa::TESSERA_ISA
