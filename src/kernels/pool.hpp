// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "kernels/conv_plan.hpp"
#include "tessera/device/exec.hpp"

/// Portable variants; the same meaning as isa/pool.hpp.
namespace tessera::kernels::portable {

void max_pool(const device::Exec& exec, const ConvPlan& plan);
void max_pool_scatter(const device::Exec& exec, const ConvPlan& plan);
void max_pool_gather(const device::Exec& exec, const ConvPlan& plan);
void average_pool(const device::Exec& exec, const ConvPlan& plan);
void average_pool_scatter(const device::Exec& exec, const ConvPlan& plan);

}  // namespace tessera::kernels::portable
