// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/models/mlp.hpp"

#include "tessera/nn/layers.hpp"
#include "tessera/nn/metrics.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/reduce.hpp"
#include "tessera/ops/softmax_cross_entropy.hpp"

namespace tessera::models {

Tensor perceptron(Tensor x, const MlpConfig& config) {
  const Tensor h = nn::dense(x, {"io"}, {{"hidden", config.hidden}},
                             {.name = "w", .bias = true, .activation = nn::Activation::relu});
  const Dim out = config.classes > 0 ? Dim{"classes", config.classes} : Dim{"io", config.io};
  return nn::dense(h, {"hidden"}, {out}, {.name = "v"});
}

void Mlp::describe(config::Schema& schema) {
  schema.add("model.io", config_.io, "size of inputs, and of outputs without classes")
      .range(1, 1e15);
  schema.add("model.hidden", config_.hidden, "size of the hidden layer").range(1, 1e15);
  schema.add("model.classes", config_.classes, "classes to tell apart; 0: learns a map of vectors")
      .range(0, 2147483647.0);
}

std::vector<replicate::InputSpec> Mlp::inputs(std::int64_t rows, std::int64_t) const {
  const Dim batch{"batch", rows};
  const TensorSpec data{Shape{batch, {"io", config_.io}}, DType::f32};
  const replicate::InputSpec weights{"weights", {Shape{batch}, DType::f32}};
  if (config_.classes == 0) return {{"x", data}, {"target", data}, weights};
  return {{"image", data}, {"label", {Shape{batch}, DType::i32}, config_.classes}, weights};
}

Tensor Mlp::loss(Graph& graph, const replicate::Batch& batch) {
  const Tensor x = ops::cast(batch[config_.classes > 0 ? "image" : "x"], batch.dtype);
  const Tensor y = perceptron(x, config_);
  if (config_.classes == 0) {
    const Tensor error = ops::subtract(y, batch["target"]);
    return nn::weighted_sum(ops::reduce_sum(ops::square(error), batch["weights"].shape()),
                            batch["weights"]);
  }
  replicate::add_metric(graph, "accuracy",
                        nn::weighted_sum(nn::correct(y, batch["label"]), batch["weights"]));
  return nn::weighted_sum(ops::softmax_cross_entropy(y, batch["label"], {}), batch["weights"]);
}

}  // namespace tessera::models
