// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "kernels/isa/isa.hpp"
#include "kernels/reduce_plan.hpp"

/// Reduces; `reduced` has at least one element.
TESSERA_ISA_DECLARE(void, reduce_dims, (const tessera::kernels::ReducePlan& plan))
/// Nothing to reduce: permutes, broadcasts and converts.
TESSERA_ISA_DECLARE(void, permute_dims, (const tessera::kernels::ReducePlan& plan))
