// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "kernels/top_k_plan.hpp"
#include "tessera/device/exec.hpp"
#include "tessera/kernels/kernel.hpp"

namespace tessera::kernels::portable {

/// A thread for each row.
void top_k_pairs(const device::Exec& exec, const TopKPlan& plan, const Tile& x);
void top_k_merge(const device::Exec& exec, const TopKPlan& plan, const Tile& values,
                 std::int32_t* indices);

}  // namespace tessera::kernels::portable
