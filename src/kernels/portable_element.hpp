// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "kernels/pointwise_plan.hpp"
#include "kernels/portable_math.hpp"

/// From a plan's element codes to types.
namespace tessera::kernels::portable {

/// f(E()) with the floating type E that the code names; on the host.
template <class Function>
void with_element(int element, const Function& f) {
  if (element == kElementF64) return f(double{});
  if (element == kElementBf16) return f(Bf16{});
  f(float{});
}

/// Element i of data, or the fallback if there are none.
KOKKOS_INLINE_FUNCTION double element_at(const void* data, int element, std::int64_t i,
                                         double fallback) {
  if (data == nullptr) return fallback;
  if (element == kElementF64) return static_cast<const double*>(data)[i];
  if (element == kElementBf16) return to_float(static_cast<const Bf16*>(data)[i]);
  return static_cast<const float*>(data)[i];
}

}  // namespace tessera::kernels::portable
