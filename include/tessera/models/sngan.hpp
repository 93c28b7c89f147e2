// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/replicate/model.hpp"

namespace tessera::models {

/// One of the two optimizers: what it changes of the deck's [optim].
struct SnganOptimConfig {
  double lr = 2e-4;
  double beta1 = 0;
  double beta2 = 0.9;
};

struct SnganConfig {
  std::int64_t base = 4;      ///< side of the smallest picture, which each up block doubles
  std::int64_t channels = 3;  ///< numbers for each pixel, 0 to 1 in the data
  std::int64_t classes = 10;
  std::int64_t latent = 128;  ///< numbers that a picture is made of
  /// Channels behind each of the generator's blocks; the first ones' also in front of them.
  std::vector<std::string> generator{"256", "256", "256"};
  /// Channels behind each of the discriminator's blocks that halve the picture.
  std::vector<std::string> discriminator{"128", "128"};
  std::int64_t flat_blocks = 2;  ///< blocks behind these that keep size and channels
  std::int64_t discriminator_steps = 5;
  double gradient_penalty = 0;   ///< factor in the discriminator's loss; 0: none
  std::int64_t norm_groups = 1;  ///< parts of a batch with batch norm statistics of their own
  SnganOptimConfig discriminator_optim;
  SnganOptimConfig generator_optim;

  /// Rows and columns of a picture.
  std::int64_t side() const;
};

/// Class-conditional generative adversarial nets with spectral normalisation: residual generator
/// with conditional batch norm and residual discriminator with projection (Miyato et al., "Spectral
/// Normalization for Generative Adversarial Networks", 2018, tables 4 to 6; Miyato and Koyama,
/// "cGANs with Projection Discriminator", 2018), trained by the hinge loss. Each step has
/// discriminator_steps updates of the discriminator, each with fresh pictures, then one of the
/// generator. Inputs image [batch, height, width, channels] f32, label i32 and weights [batch].
///
/// Dims that a layout may cut: batch, height, width, hidden (inside each block), features_0 …
/// between the blocks, classes, latent. Latent numbers and labels of generated pictures are drawn
/// in the graph: functions of the run's seed, the update and the row, equal on every mesh.
class Sngan : public replicate::Model {
 public:
  Sngan() = default;
  explicit Sngan(const SnganConfig& config) : config_(config) {}
  void describe(config::Schema& schema) override;
  void validate() const override;
  std::vector<replicate::InputSpec> inputs(std::int64_t rows, std::int64_t length) const override;
  std::vector<replicate::Phase> phases() const override;
  /// Of the discriminator or of the generator; in evaluations the discriminator's, with the
  /// generator's running statistics.
  Tensor loss(Graph& graph, const replicate::Batch& batch) override;
  /// Pictures of the classes 0, 1, … in turn.
  std::vector<replicate::DrawnField> draw(Graph& graph, const replicate::Batch& batch) override;

 private:
  Tensor discriminator_loss(Graph& graph, const replicate::Batch& batch) const;
  Tensor generator_loss(Graph& graph, const replicate::Batch& batch) const;
  /// nn::gradient_penalty of each row at a random point between its two pictures.
  Tensor penalty(Tensor real, Tensor generated, const replicate::Batch& batch) const;

  SnganConfig config_;
};

}  // namespace tessera::models
