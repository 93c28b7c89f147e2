// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <vector>

#include "tessera/graph/graph.hpp"
#include "tessera/ops/pointwise.hpp"
#include "tessera/optim/optim_config.hpp"

namespace tessera::optim {

/// Scalars that all weights' updates share.
struct Scalars {
  Tensor lr;
  Tensor step;      ///< f64, from 1
  Tensor finite;    ///< 1 or 0
  Tensor clip;      ///< factor of the gradients; empty: none
  Tensor correct1;  ///< adam: 1 / (1 - beta1^step)
  Tensor correct2;  ///< adam: 1 / (1 - beta2^step)
  Tensor decay;     ///< adafactor: decay of the second moments
  Tensor first;     ///< ema: 1 at the first step, else 0
};

/// One weight and what its update needs.
struct WeightUpdate {
  const OptimConfig& config;
  const Scalars& scalars;
  Variable variable;
  Tensor weight;
  Tensor gradient;
  double weight_decay = 0;

  Graph& graph() const { return weight.graph(); }
  /// Declares a slot variable that starts at 0, and reads it.
  Tensor slot(const std::string& name, const Shape& shape) const;
  void assign_slot(const std::string& name, Tensor value) const;
};

/// sgd, momentum, adam and adamw: one operation for each weight.
void update_by_moments(const WeightUpdate& update);
/// Shazeer and Stern, "Adafactor", in the form of tensorflow/mesh (mesh_tensorflow/optimize.py).
void update_by_adafactor(const std::vector<WeightUpdate>& updates);

/// A weight's average after a step from `before` to `after`. It starts from the initial weights,
/// which the first step still sees.
ops::Value averaged(const OptimConfig& config, ops::Value average, ops::Value before,
                    ops::Value after, ops::Value first, ops::Value finite);

}  // namespace tessera::optim
