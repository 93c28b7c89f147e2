// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>
#include <vector>

#include "tessera/graph/graph.hpp"

namespace tessera::ops {

/// Product of all inputs over their united dims, summed over the dims that `output` lacks and
/// repeated along the dims that only `output` has (Mesh-TensorFlow's einsum). Any number of inputs
/// of one dtype: pairs are multiplied in the order that costs least at each turn. The result has
/// the inputs' dtype unless one is given. Cut summed dims leave a partial sum.
/// UserError if a dim has two sizes or dtypes differ.
Tensor einsum(const std::vector<Tensor>& inputs, const Shape& output,
              std::optional<DType> dtype = {});

/// The dtype in which the gradient of `tensor` is computed: its own, but of a weight that was cast
/// to 16 bits the weight's, so that gradients are summed and stored in full precision.
DType gradient_dtype(Tensor tensor);

}  // namespace tessera::ops
