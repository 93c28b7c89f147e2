// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "kernels/softmax_plan.hpp"
#include "tessera/device/exec.hpp"

/// Portable variants; the same meaning as isa/softmax.hpp.
namespace tessera::kernels::portable {

void softmax_max(const device::Exec& exec, const SoftmaxPlan& plan);
void softmax_sums(const device::Exec& exec, const SoftmaxPlan& plan);
void softmax_finish(const device::Exec& exec, const SoftmaxPlan& plan);
void softmax_backward(const device::Exec& exec, const SoftmaxPlan& plan);

}  // namespace tessera::kernels::portable
