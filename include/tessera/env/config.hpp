// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>

#include "tessera/config/schema.hpp"
#include "tessera/env/actors.hpp"
#include "tessera/env/mujoco.hpp"

namespace tessera::env {

/// Section [env] of a deck: where a model that learns by acting gets its experience from.
struct EnvConfig {
  std::string name = "pendulum";
  std::int64_t count = 8;  ///< environments, over all ranks
  std::int64_t steps_per_update = 1;
  std::int64_t warmup = 1000;
  std::int64_t replay = 100000;
  double priority_exponent = 0;
  double priority_beta = 0.4;
  int n_step = 5;
  double gamma = 0.99;
  double noise = 0.3;
  MujocoTask mujoco;  ///< only of the environment "mujoco"

  void describe(config::Schema& schema);
  /// UserError that names the key.
  void validate() const;

  /// Of the environment that the deck names. UserError if it can't be made.
  MakeEnvironment environment() const;
  ActorConfig actors(std::uint64_t seed) const;
  ReplayConfig memory() const;
};

}  // namespace tessera::env
