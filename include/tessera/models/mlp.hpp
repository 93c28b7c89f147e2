// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "tessera/replicate/model.hpp"

namespace tessera::models {

/// The two-layer perceptron y = relu(x W + bias) V of the Mesh-TensorFlow paper.
struct MlpConfig {
  std::int64_t io = 64;
  std::int64_t hidden = 256;
};

/// relu(x W + bias) V over dims [batch, io] and hidden; weights w, w_bias, v under the open scopes.
Tensor perceptron(Tensor x, const MlpConfig& config);

/// Learns a map of [batch, io]: inputs x and target (f32), weights [batch]; the loss is the squared
/// error.
class Mlp : public replicate::Model {
 public:
  Mlp() = default;
  explicit Mlp(const MlpConfig& config) : config_(config) {}
  void describe(config::Schema& schema) override;
  std::vector<replicate::InputSpec> inputs(std::int64_t rows, std::int64_t length) const override;
  Tensor loss(Graph& graph, const replicate::Batch& batch) override;

 private:
  MlpConfig config_;
};

}  // namespace tessera::models
