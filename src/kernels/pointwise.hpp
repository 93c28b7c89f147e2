// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "kernels/pointwise_plan.hpp"
#include "tessera/device/exec.hpp"
#include "tessera/kernels/kernel.hpp"

namespace tessera::kernels {

/// Decodes a call: reads code and constants, finds strides from the maps, drops dims of extent 1
/// and merges neighbouring dims that all operands walk alike.
PointPlan plan_pointwise(const Call& call);
/// Whether the plan computes in double: any operand is f64.
bool computes_in_double(const PointPlan& plan);

void pointwise_portable(const device::Exec& exec, const PointPlan& plan);

}  // namespace tessera::kernels
