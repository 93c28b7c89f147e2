// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "kernels/reduce_plan.hpp"
#include "tessera/device/exec.hpp"

namespace tessera::kernels {

/// Serves permutations too: `reduced` may have no loops.
void reduce_portable(const device::Exec& exec, const ReducePlan& plan);

/// What max and min give where there is nothing to reduce: the lowest and highest finite value of
/// the output's type.
double lowest_of(int element);

}  // namespace tessera::kernels
