// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "kernels/conv_plan.hpp"
#include "kernels/isa/isa.hpp"

// Pooling: a ConvPlan whose groups are channels; result: y or x's gradient.

/// a: x.
TESSERA_ISA_DECLARE(void, max_pool, (const ConvPlan& plan))
/// a: x, b: values of y's shape; each goes to the place of its window's first maximum, added up.
TESSERA_ISA_DECLARE(void, max_pool_scatter, (const ConvPlan& plan))
/// a: x, b: values of x's shape; the one at the place of each window's first maximum.
TESSERA_ISA_DECLARE(void, max_pool_gather, (const ConvPlan& plan))
/// a: x; means over a window's elements inside x.
TESSERA_ISA_DECLARE(void, average_pool, (const ConvPlan& plan))
/// a: values of y's shape; the adjoint.
TESSERA_ISA_DECLARE(void, average_pool_scatter, (const ConvPlan& plan))
