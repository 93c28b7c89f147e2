// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "kernels/scan_plan.hpp"
#include "tessera/device/exec.hpp"
#include "tessera/kernels/kernel.hpp"

namespace tessera::kernels::portable {

/// A thread for each column.
void scan_total(const device::Exec& exec, const ScanPlan& plan, const Tile& x, double* total);
void scan(const device::Exec& exec, const ScanPlan& plan, const Tile& x, const Tile& y);

}  // namespace tessera::kernels::portable
