// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "kernels/group_norm_plan.hpp"
#include "kernels/isa/isa.hpp"

// Group norm: kernels/README.md says what each computes.

TESSERA_ISA_DECLARE(void, group_norm_moments, (const GroupNormPlan& plan))
TESSERA_ISA_DECLARE(void, group_norm_backward_sums, (const GroupNormPlan& plan))
TESSERA_ISA_DECLARE(void, group_norm_backward_apply, (const GroupNormPlan& plan))
