// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "kernels/lookup_plan.hpp"
#include "tessera/device/exec.hpp"
#include "tessera/kernels/kernel.hpp"

namespace tessera::kernels::portable {

void gather(const device::Exec& exec, const LookupPlan& plan, const Tile& table, const Tile& flat);
/// One thread for each element of a row adds in the order of the flat side, as the host does.
void scatter_add(const device::Exec& exec, const LookupPlan& plan, const Tile& flat,
                 const Tile& table);

}  // namespace tessera::kernels::portable
