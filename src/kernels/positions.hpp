// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "kernels/isa/rotary.hpp"
#include "tessera/device/exec.hpp"
#include "tessera/kernels/kernel.hpp"

namespace tessera::kernels {

/// y [length, d] of `sinusoid`.
struct SinusoidPlan {
  int element;
  void* y;
  std::int64_t length;
  std::int64_t size;
  std::int64_t first_position;
  std::int64_t first_column;
  std::int64_t columns;  ///< of the whole tensor
};

namespace portable {

void rotary(const device::Exec& exec, const RotaryPlan& plan);
void sinusoid(const device::Exec& exec, const SinusoidPlan& plan);

}  // namespace portable
}  // namespace tessera::kernels
