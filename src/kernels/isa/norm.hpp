// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "kernels/isa/isa.hpp"
#include "kernels/norm_plan.hpp"

// Scale and bias are given always here, ones and zeros if need be.
/// Statistics of whole rows, and y.
TESSERA_ISA_DECLARE(void, norm_forward, (const tessera::kernels::NormPlan& plan))
/// y from given statistics.
TESSERA_ISA_DECLARE(void, norm_apply, (const tessera::kernels::NormPlan& plan))
TESSERA_ISA_DECLARE(void, norm_moments, (const tessera::kernels::NormPlan& plan))
/// Sums of whole rows, dx, dscale and dbias; given `sums` (null: of this row) come from elsewhere.
TESSERA_ISA_DECLARE(void, norm_backward, (const tessera::kernels::NormPlan& plan))
TESSERA_ISA_DECLARE(void, norm_backward_sums, (const tessera::kernels::NormPlan& plan))
