// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>

#include "tessera/nn/categorical.hpp"
#include "tessera/replicate/model.hpp"

namespace tessera::models {

struct D4pgConfig {
  std::int64_t hidden = 256;  ///< width of every layer
  std::int64_t layers = 2;    ///< hidden layers of critic and policy
  bool layer_norm = true;     ///< behind the first layer, with tanh
  std::int64_t atoms = 51;
  double v_min = 0;
  double v_max = 100;
  double policy_lr = 0;  ///< 0: optim.lr
  double target_rate = 1;
  std::int64_t target_period = 100;
};

/// D4PG (Barth-Maron et al., "Distributed Distributional Deterministic Policy Gradients", 2018): a
/// critic that gives the return of an action as a distribution over fixed atoms, a policy that
/// climbs its expected value, copies of both that follow, and n-step transitions that are drawn
/// from a replay. Networks as in Acme (Hoffman et al. 2020): a layer with layer norm and tanh, then
/// layers with elu.
///
/// Phase `critic`: cross-entropy of the critic's distribution against reward + discount x the
/// return that the copies expect from `next`, projected onto the atoms; fetches "priority", the
/// rows' cross-entropies. Phase `policy`, on the same batch: minus the critic's expected value of
/// the policy's actions. Metrics: critic/value, the expected return of the batch's actions.
class D4pg final : public replicate::Model {
 public:
  D4pg() = default;
  explicit D4pg(const D4pgConfig& config) : config_(config) {}

  void describe(config::Schema& schema) override;
  void validate() const override;
  std::vector<replicate::InputSpec> inputs(std::int64_t rows, std::int64_t length) const override;
  std::vector<replicate::Phase> phases() const override;
  Tensor loss(Graph& graph, const replicate::Batch& batch) override;
  void finish(Graph& graph) override;
  bool acts() const override { return true; }
  void set_spaces(const replicate::Spaces& spaces) override { spaces_ = spaces; }
  Tensor act(Graph& graph, const replicate::Batch& batch) override;

 private:
  nn::Support support() const;
  Tensor torso(Tensor first) const;
  Tensor policy(Tensor observation) const;
  Tensor critic(Tensor observation, Tensor action) const;
  Tensor critic_loss(Graph& graph, const replicate::Batch& batch) const;
  Tensor policy_loss(const replicate::Batch& batch) const;

  D4pgConfig config_;
  replicate::Spaces spaces_;
};

}  // namespace tessera::models
