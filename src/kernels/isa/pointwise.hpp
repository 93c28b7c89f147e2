// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "kernels/isa/isa.hpp"
#include "kernels/pointwise_plan.hpp"

/// Runs a plan, computing in float or in double.
TESSERA_ISA_DECLARE(void, pointwise_f32, (const tessera::kernels::PointPlan& plan))
TESSERA_ISA_DECLARE(void, pointwise_f64, (const tessera::kernels::PointPlan& plan))
