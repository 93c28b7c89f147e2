// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/nn/weights.hpp"

#include <cmath>

namespace tessera::nn {

DType weight_dtype(DType activations) {
  return activations == DType::f64 ? DType::f64 : DType::f32;
}

Tensor weight(Graph& graph, const std::string& name, const Shape& shape, DType activations,
              const Initializer& initializer, bool decay) {
  Variable variable;
  variable.name = name;
  variable.spec = {shape, weight_dtype(activations)};
  variable.kind = Variable::Kind::weight;
  variable.initializer = initializer;
  variable.decay = decay;
  return graph.variable(std::move(variable));
}

Initializer fan_in_normal(const std::vector<Dim>& summed, double gain) {
  double fan_in = 1;
  for (const auto& dim : summed) fan_in *= static_cast<double>(dim.size);
  return Initializer::normal(gain / std::sqrt(fan_in > 0 ? fan_in : 1));
}

}  // namespace tessera::nn
