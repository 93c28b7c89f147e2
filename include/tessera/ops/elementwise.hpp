// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <vector>

#include "tessera/graph/graph.hpp"

/// Elementwise functions with broadcast by name. The result has the dims of the first operand, then
/// those that only later ones have; UserError if a common dim's sizes differ. Its dtype: see
/// result_dtype in ops/pointwise.hpp.
namespace tessera::ops {

Tensor add(Tensor a, Tensor b);
Tensor add(Tensor a, double b);
/// Sum of any number of tensors of one shape.
Tensor add_n(const std::vector<Tensor>& terms);
Tensor subtract(Tensor a, Tensor b);
Tensor multiply(Tensor a, Tensor b);
Tensor multiply(Tensor a, double b);
Tensor divide(Tensor a, Tensor b);
/// Of equal elements each gets half of the gradient.
Tensor minimum(Tensor a, Tensor b);
Tensor maximum(Tensor a, Tensor b);
/// a^b; the gradient towards b needs a > 0.
Tensor power(Tensor a, Tensor b);
Tensor power(Tensor a, double b);
/// floor(a / b), and a - b floor(a / b), which has b's sign. Exact for integers below 2^24 (2^53 in
/// f64). No gradient flows through the floor.
Tensor floor_divide(Tensor a, Tensor b);
Tensor modulo(Tensor a, Tensor b);
/// 1 where a < b (a == b), else 0; no gradient. More comparisons: ops/compare.hpp.
Tensor less(Tensor a, Tensor b);
Tensor equal(Tensor a, Tensor b);
/// a where condition != 0, else b.
Tensor where(Tensor condition, Tensor a, Tensor b);
/// 1 where x is finite, else 0; no gradient.
Tensor is_finite(Tensor x);

Tensor negate(Tensor x);
Tensor absolute(Tensor x);
/// -1, 0 or 1; NaN of NaN. Its gradient is zero.
Tensor sign(Tensor x);
/// The largest integer that is not above x; no gradient.
Tensor floor(Tensor x);
Tensor square(Tensor x);
Tensor sqrt(Tensor x);
Tensor rsqrt(Tensor x);
Tensor reciprocal(Tensor x);
Tensor exp(Tensor x);
Tensor log(Tensor x);
Tensor sin(Tensor x);
Tensor cos(Tensor x);
Tensor tanh(Tensor x);
Tensor erf(Tensor x);
Tensor sigmoid(Tensor x);
Tensor relu(Tensor x);
/// x Phi(x) with the normal distribution's Phi (erf).
Tensor gelu(Tensor x);
/// The tanh approximation of gelu (Hendrycks and Gimpel, "Gaussian Error Linear Units").
Tensor gelu_tanh(Tensor x);
/// x sigmoid(x).
Tensor silu(Tensor x);

/// The same values in another dtype; x itself if it has it.
Tensor cast(Tensor x, DType dtype);
/// x repeated along the dims that only `shape` has, its dims in the order of `shape`.
Tensor broadcast(Tensor x, const Shape& shape);
/// x, with no gradient through it.
Tensor stop_gradient(Tensor x);
/// A tensor filled with one value.
Tensor fill(Graph& graph, double value, const TensorSpec& spec);

}  // namespace tessera::ops
