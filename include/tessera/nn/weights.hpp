// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/graph/graph.hpp"

namespace tessera::nn {

/// dtype in which weights are stored, updated and their gradients summed: f64 under f64
/// activations, else f32.
DType weight_dtype(DType activations);

/// Declares a weight under the open scopes and reads it. `decay`: takes part in weight decay.
Tensor weight(Graph& graph, const std::string& name, const Shape& shape, DType activations,
              const Initializer& initializer, bool decay = true);

/// Normal with standard deviation gain / sqrt(product of the summed dims): of the whole dims, so
/// that the values are the same however the weight is cut.
Initializer fan_in_normal(const std::vector<Dim>& summed, double gain = 1);

}  // namespace tessera::nn
