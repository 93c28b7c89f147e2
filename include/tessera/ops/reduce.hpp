// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>

#include "tessera/graph/graph.hpp"

namespace tessera::ops {

/// Reductions over the dims of x that `output` lacks; `output`'s dims are some of x's with their
/// sizes, in any order (UserError otherwise). The dtype is x's, sums of bf16 are f32, unless one is
/// given. Over a cut dim each rank reduces its tile; what remains to be reduced is a partial sum or
/// maximum.
///
/// alpha x sum.
Tensor reduce_sum(Tensor x, const Shape& output, double alpha = 1, std::optional<DType> dtype = {});
Tensor reduce_mean(Tensor x, const Shape& output);
Tensor reduce_sum_squares(Tensor x, const Shape& output);
/// Gradient: the elements that equal the maximum (minimum) share it equally.
Tensor reduce_max(Tensor x, const Shape& output);
Tensor reduce_min(Tensor x, const Shape& output);
/// 1 where some (every) element is not 0, else 0; of nothing 0 (1). x of any dtype; the result is
/// f32 of i32, else of x's dtype. No gradient.
Tensor reduce_any(Tensor x, const Shape& output);
Tensor reduce_all(Tensor x, const Shape& output);

}  // namespace tessera::ops
