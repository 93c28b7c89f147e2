// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/optim/optim_config.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"
#include "tessera/optim/schedule.hpp"

namespace tessera::optim {

void OptimConfig::describe(config::Schema& schema) {
  constexpr double kHuge = 1e18;
  schema.add("optim.name", name, "optimizer")
      .choices({"sgd", "momentum", "adam", "adamw", "adafactor"});
  schema.add("optim.lr", lr, "learning rate, before the schedule's factors").range(0, kHuge);
  schema.add("optim.schedule", schedule,
             "product of factors of the learning rate: constant, warmup, rsqrt, linear_decay, "
             "cosine, step, numbers; e.g. warmup*cosine");
  schema
      .add("optim.schedule_steps", schedule_steps,
           "steps that the schedule counts on, kept on resume; 0: train.steps of the first start")
      .range(0, kHuge);
  schema.add("optim.warmup", warmup, "steps of the factors warmup, rsqrt and cosine")
      .range(0, kHuge);
  schema
      .add("optim.decay_steps", decay_steps,
           "last steps over which linear_decay falls to 0; 0: the whole schedule")
      .range(0, kHuge);
  schema.add("optim.final_share", final_share, "share of the rate that cosine leaves at the end")
      .range(0, 1);
  schema.add("optim.step_at", step_at,
             "steps after which the factor step multiplies the rate by optim.step_factor");
  schema.add("optim.step_factor", step_factor, "of the factor step").range(0, 1);
  schema
      .add("optim.clip_norm", clip_norm,
           "largest global norm of the gradient, longer ones are scaled down; 0: off")
      .range(0, kHuge);
  schema
      .add("optim.weight_decay", weight_decay,
           "decoupled weight decay, times the learning rate; norms and biases are left out")
      .range(0, kHuge);
  schema.add("optim.decay_all", decay_all, "weight decay of norms and biases, too");
  schema.add("optim.beta1", beta1, "decay of the first moment (adam, adamw)").range(0, 0.9999999);
  schema.add("optim.beta2", beta2, "decay of the second moment (adam, adamw)").range(0, 0.9999999);
  schema
      .add("optim.epsilon", epsilon,
           "added to the root of the second moment (adam, adamw); a weight whose gradients are all "
           "0 would be divided by 0 without it")
      .range(1e-30, 1);
  schema.add("optim.momentum", momentum, "decay of the velocity (momentum)").range(0, 1);
  schema.add("optim.nesterov", nesterov, "momentum looks ahead");
  schema
      .add("optim.decay_exponent", decay_exponent,
           "adafactor: second moments decay by 1 - step^-decay_exponent")
      .range(0, 1);
  schema
      .add("optim.clip_update", clip_update,
           "adafactor: largest root mean square of an update before the rate")
      .range(1e-12, kHuge);
  schema.add("optim.scale_by_weight", scale_by_weight,
             "adafactor: multiply the rate by the weight's root mean square");
  schema
      .add("optim.factored_size", factored_size,
           "adafactor: keep only row and column means if both largest dims have this size")
      .range(1, kHuge);
  schema.add("optim.shard", shard, "mesh dim over which optimizer state is split once more")
      .free_key();
  schema.add("optim.ema", ema, "decay of the exponential average of weights; 0: none")
      .range(0, 0.9999999);
  schema.add("optim.freeze", freeze, "patterns (* and ?) of weights that are not trained");
}

void OptimConfig::validate() const {
  check_schedule(*this);
}

bool OptimConfig::is_frozen(const std::string& weight) const {
  return std::any_of(freeze.begin(), freeze.end(),
                     [&](const auto& pattern) { return matches_pattern(pattern, weight); });
}

}  // namespace tessera::optim
