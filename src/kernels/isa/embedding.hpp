// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "kernels/embedding_plan.hpp"
#include "kernels/isa/isa.hpp"

TESSERA_ISA_DECLARE(void, embedding_forward, (const tessera::kernels::EmbeddingPlan& plan))
/// Adds to the table's gradient, which is f32 or f64, in order of ids.
TESSERA_ISA_DECLARE(void, embedding_backward, (const tessera::kernels::EmbeddingPlan& plan))
