// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "kernels/group_norm_plan.hpp"
#include "tessera/device/exec.hpp"

/// Portable variants; the same meaning as isa/group_norm.hpp.
namespace tessera::kernels::portable {

void group_norm_moments(const device::Exec& exec, const GroupNormPlan& plan);
void group_norm_backward_sums(const device::Exec& exec, const GroupNormPlan& plan);
void group_norm_backward_apply(const device::Exec& exec, const GroupNormPlan& plan);

}  // namespace tessera::kernels::portable
