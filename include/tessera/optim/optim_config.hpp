// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/config/schema.hpp"

namespace tessera::optim {

/// The deck's [optim] section.
struct OptimConfig {
  std::string name = "adam";
  double lr = 1e-3;
  /// Product of factors, e.g. "warmup*rsqrt*linear_decay" (optim/schedule.hpp).
  std::string schedule = "constant";
  /// Steps that the schedule counts on; 0: the run's steps, filled in before training.
  std::int64_t schedule_steps = 0;
  std::int64_t warmup = 0;
  /// linear_decay: length of the last part over which the rate falls to 0; 0: the whole schedule.
  std::int64_t decay_steps = 0;
  /// cosine: the share of the rate that is left at the end.
  double final_share = 0;
  /// step: the rate is multiplied by step_factor after each of these steps, in rising order.
  std::vector<std::string> step_at;
  double step_factor = 0.1;
  /// Largest global norm of the gradient; 0: no clipping.
  double clip_norm = 0;
  /// Decoupled weight decay, times the learning rate; 0: none.
  double weight_decay = 0;
  /// Decay norms' scales and biases, too.
  bool decay_all = false;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double momentum = 0.9;
  bool nesterov = false;
  /// Adafactor: exponent of the second moments' decay 1 - t^-decay_exponent.
  double decay_exponent = 0.8;
  /// Adafactor: largest RMS of an update before the rate.
  double clip_update = 1.0;
  /// Adafactor: multiply the rate by the weight's RMS.
  bool scale_by_weight = true;
  /// Adafactor: keep row and column means if the second largest dim has at least this size.
  std::int64_t factored_size = 128;
  /// Mesh dim over which optimizer state is split once more; "": none.
  std::string shard;
  /// Decay of the exponential average of weights; 0: no average.
  double ema = 0;
  /// Patterns (* and ?) of weights that stay as they are.
  std::vector<std::string> freeze;

  /// Registers the keys optim.*.
  void describe(config::Schema& schema);
  /// UserError that names the key.
  void validate() const;
  /// True if one of the freeze patterns matches.
  bool is_frozen(const std::string& weight) const;
};

}  // namespace tessera::optim
