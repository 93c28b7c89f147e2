// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/replicate/model.hpp"

namespace tessera::models {

struct ConvNetConfig {
  std::int64_t height = 28;
  std::int64_t width = 28;
  std::int64_t channels = 1;
  std::int64_t stages = 2;
  std::int64_t filters = 16;  ///< of the first stage; each further one has twice as many
  std::int64_t kernel = 5;
  std::int64_t pool = 2;
  std::int64_t hidden = 128;
  std::int64_t classes = 10;
  bool batch_norm = false;
};

/// Classifies pictures: stages of convolution, batch norm if wanted, ReLU and max pooling, then a
/// hidden layer over all that is left of the picture. Inputs image [batch, height, width, channels]
/// f32, label i32 and weights [batch]; dims filters_0 … of the stages, hidden, classes. A layout
/// may cut any of them, the picture included: neighbours exchange rows and columns at the borders.
class ConvNet : public replicate::Model {
 public:
  ConvNet() = default;
  explicit ConvNet(const ConvNetConfig& config) : config_(config) {}
  void describe(config::Schema& schema) override;
  void validate() const override;
  std::vector<replicate::InputSpec> inputs(std::int64_t rows, std::int64_t length) const override;
  Tensor loss(Graph& graph, const replicate::Batch& batch) override;

 private:
  Tensor logits_of(Tensor image, const replicate::Batch& batch) const;

  ConvNetConfig config_;
};

}  // namespace tessera::models
