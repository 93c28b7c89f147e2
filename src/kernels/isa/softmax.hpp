// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "kernels/isa/isa.hpp"
#include "kernels/softmax_plan.hpp"

TESSERA_ISA_DECLARE(void, softmax_max, (const tessera::kernels::SoftmaxPlan& plan))
TESSERA_ISA_DECLARE(void, softmax_sums, (const tessera::kernels::SoftmaxPlan& plan))
TESSERA_ISA_DECLARE(void, softmax_finish, (const tessera::kernels::SoftmaxPlan& plan))
TESSERA_ISA_DECLARE(void, softmax_backward, (const tessera::kernels::SoftmaxPlan& plan))
