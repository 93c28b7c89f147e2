// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "kernels/conv_plan.hpp"
#include "kernels/isa/isa.hpp"

// Convolutions of channels by themselves (in = out = 1): loops over channels side by side.

TESSERA_ISA_DECLARE(void, depthwise_forward, (const ConvPlan& plan))
TESSERA_ISA_DECLARE(void, depthwise_input_grad, (const ConvPlan& plan))
TESSERA_ISA_DECLARE(void, depthwise_filter_grad, (const ConvPlan& plan))
