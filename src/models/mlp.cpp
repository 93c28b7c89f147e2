// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/models/mlp.hpp"

#include "tessera/nn/layers.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/reduce.hpp"

namespace tessera::models {

Tensor perceptron(Tensor x, const MlpConfig& config) {
  const Tensor h = nn::dense(x, {"io"}, {{"hidden", config.hidden}},
                             {.name = "w", .bias = true, .activation = nn::Activation::relu});
  return nn::dense(h, {"hidden"}, {{"io", config.io}}, {.name = "v"});
}

void Mlp::describe(config::Schema& schema) {
  schema.add("model.io", config_.io, "size of inputs and outputs").range(1, 1e15);
  schema.add("model.hidden", config_.hidden, "size of the hidden layer").range(1, 1e15);
}

std::vector<replicate::InputSpec> Mlp::inputs(std::int64_t rows, std::int64_t) const {
  const Dim batch{"batch", rows};
  const TensorSpec data{Shape{batch, {"io", config_.io}}, DType::f32};
  return {{"x", data}, {"target", data}, {"weights", {Shape{batch}, DType::f32}}};
}

Tensor Mlp::loss(Graph&, const replicate::Batch& batch) {
  const Tensor x = ops::cast(batch["x"], batch.dtype);
  const Tensor error = ops::subtract(perceptron(x, config_), batch["target"]);
  return nn::weighted_sum(ops::reduce_sum(ops::square(error), batch["weights"].shape()),
                          batch["weights"]);
}

}  // namespace tessera::models
