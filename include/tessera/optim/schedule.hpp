// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "tessera/optim/optim_config.hpp"

namespace tessera::optim {

/// The learning rate of optimizer step `step` (from 1): optim.lr times the product of the factors
/// of optim.schedule, a pure function of the step and optim.schedule_steps:
///   constant      1
///   warmup        min(1, step / warmup)
///   rsqrt         1 / sqrt(max(step, warmup))
///   linear_decay  1, over the last decay_steps steps falling linearly towards 0
///   cosine        from 1 after the warm-up to final_share at the last step
///   step          step_factor ^ (how many of step_at lie before this step)
/// Numbers are factors, too. The factors are those of Mesh-TensorFlow's learning rate schedules
/// (tensorflow/mesh, mesh_tensorflow/transformer/learning_rate_schedules.py).
double learning_rate(const OptimConfig& config, std::int64_t step);

/// UserError if optim.schedule has an unknown factor or lacks a number that a factor needs.
void check_schedule(const OptimConfig& config);

}  // namespace tessera::optim
