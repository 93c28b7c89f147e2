// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/replicate/model.hpp"

namespace tessera::models {

/// The deck's [model] section of a residual net.
struct ResNetConfig {
  std::int64_t depth = 50;          ///< 18, 34: two 3x3 a block; 50, 101, 152: bottlenecks
  std::vector<std::string> blocks;  ///< of each stage; empty: those of the depth
  std::int64_t height = 224;
  std::int64_t width = 224;
  std::int64_t channels = 3;
  std::int64_t filters = 64;  ///< of the stem and the first stage's 3x3; each stage doubles them
  std::string stem = "imagenet";  ///< imagenet: 7x7 with stride 2 and pooling; small: 3x3
  std::int64_t classes = 1000;
  std::int64_t norm_groups = 1;
  double norm_momentum = 0.9;
  double epsilon = 1e-5;
  bool zero_init = true;
  double label_smoothing = 0;

  bool has_bottlenecks() const { return depth >= 50; }
};

/// Residual net, v1.5: the stride lies in a bottleneck's 3x3 (He et al., "Deep Residual Learning
/// for Image Recognition"; Goyal et al., "Accurate, Large Minibatch SGD"). Inputs image [batch,
/// height, width, channels] f32, label i32 and weights [batch]. Dims: stem, and of stage s
/// filters_s (of the residual stream), narrow_s and middle_s (within its blocks), classes. A layout
/// may cut any of them, the picture included.
///
/// Batch norm over the whole batch, wherever it lies, or over each of norm_groups equal parts of
/// it: statistics per replica, or per group of replicas, whatever the number of ranks. In training
/// x then has the dims [replica, replica_batch] in place of batch: a layout may cut `replica`.
class ResNet : public replicate::Model {
 public:
  ResNet() = default;
  explicit ResNet(const ResNetConfig& config) : config_(config) {}
  void describe(config::Schema& schema) override;
  void validate() const override;
  std::vector<replicate::InputSpec> inputs(std::int64_t rows, std::int64_t length) const override;
  Tensor loss(Graph& graph, const replicate::Batch& batch) override;

  /// Blocks of each stage.
  std::vector<std::int64_t> stages() const;

 private:
  struct Building;
  Tensor norm(Tensor x, const std::string& channels, const std::string& name,
              const Building& building, double scale = 1) const;
  Tensor stem(Tensor x, const Building& building) const;
  /// The first stage keeps its input's size, the others halve it.
  Tensor block(Tensor x, std::int64_t stage, std::int64_t index, const Building& building) const;
  /// [batch, classes].
  Tensor logits_of(const replicate::Batch& batch) const;

  ResNetConfig config_;
};

}  // namespace tessera::models
