// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "kernels/norm_plan.hpp"
#include "tessera/device/exec.hpp"

/// Portable variants; the same meaning as isa/norm.hpp.
namespace tessera::kernels::portable {

void norm_forward(const device::Exec& exec, const NormPlan& plan);
void norm_apply(const device::Exec& exec, const NormPlan& plan);
void norm_moments(const device::Exec& exec, const NormPlan& plan);
void norm_backward(const device::Exec& exec, const NormPlan& plan);
void norm_backward_sums(const device::Exec& exec, const NormPlan& plan);

}  // namespace tessera::kernels::portable
