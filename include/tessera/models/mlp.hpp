// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "tessera/replicate/model.hpp"

namespace tessera::models {

/// The two-layer perceptron y = relu(x W + bias) V of the Mesh-TensorFlow paper.
struct MlpConfig {
  std::int64_t io = 64;
  std::int64_t hidden = 256;
  std::int64_t classes = 0;  ///< 0: y has the dim io
};

/// relu(x W + bias) V over dims [batch, io] and hidden, to io or classes; weights w, w_bias, v
/// under the open scopes.
Tensor perceptron(Tensor x, const MlpConfig& config);

/// Without classes it learns a map of [batch, io]: inputs x and target (f32), weights [batch]; the
/// loss is the squared error. With classes it names one for each image: inputs image (f32 [batch,
/// io]), label (i32 [batch]), weights [batch]; the loss is the cross-entropy, metric accuracy.
class Mlp : public replicate::Model {
 public:
  Mlp() = default;
  explicit Mlp(const MlpConfig& config) : config_(config) {}
  void describe(config::Schema& schema) override;
  std::vector<replicate::InputSpec> inputs(std::int64_t rows, std::int64_t length) const override;
  Tensor loss(Graph& graph, const replicate::Batch& batch) override;
  std::int64_t vocab() const override { return config_.classes; }

 private:
  MlpConfig config_;
};

}  // namespace tessera::models
