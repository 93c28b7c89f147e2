// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/env/config.hpp"

#include "tessera/base/error.hpp"

namespace tessera::env {

static constexpr const char* kMujoco = "mujoco";

void EnvConfig::describe(config::Schema& schema) {
  constexpr double kMost = 1e12;
  auto names = environment_names();
  names.emplace_back(kMujoco);
  schema
      .add("env.name", name,
           "The environment that a model which acts lives in; mujoco: the task of env.model")
      .choices(names);
  schema
      .add("env.count", count,
           "Environments that run side by side, over all ranks (the tensor dim environment)")
      .range(1, 1 << 20);
  schema
      .add("env.steps_per_update", steps_per_update,
           "Steps of each environment between two optimizer steps, by the weights as they are then")
      .range(1, 1 << 20);
  schema
      .add("env.warmup", warmup,
           "Steps of all environments together, by actions drawn uniformly, before the first "
           "optimizer step")
      .range(1, kMost);
  schema
      .add("env.replay", replay,
           "Transitions that are kept, the newest of each environment, and drawn from for a batch")
      .range(1, kMost);
  schema
      .add("env.priority_exponent", priority_exponent,
           "Draw transitions in proportion to this power of their priority, which the model gives "
           "when it has learnt from them; 0: all alike")
      .range(0, 10);
  schema
      .add("env.priority_beta", priority_beta,
           "Weigh a transition with this power of 1 / (transitions x probability of being drawn), "
           "the largest weight of a batch being 1: 1 undoes what priorities favour, 0 nothing")
      .range(0, 1);
  schema
      .add("env.n_step", n_step,
           "Steps whose rewards make up a transition, before the model's own estimate follows")
      .range(1, 1 << 20);
  schema.add("env.gamma", gamma, "What a reward one step later counts for").range(1e-6, 1);
  schema
      .add("env.noise", noise,
           "Standard deviation of the Gaussian noise added to actions, which lie in [-1, 1]")
      .range(0, 1e6);
  schema.add("env.model", mujoco.model, "MuJoCo: the file of a model (XML)").path();
  schema.add("env.reward", mujoco.reward,
             "MuJoCo: the model's sensor whose last number s, from -1 to 1, says how good a state "
             "is: the reward is (1 + s) / 2");
  schema.add("env.goal", mujoco.goal, "MuJoCo: the sparse reward is 1 where s is larger");
  schema
      .add("env.start", mujoco.start,
           "MuJoCo: hinges and slides begin within this of the model's first key, or its pose")
      .range(0, 1e6);
  schema.add("env.frames", mujoco.frames, "MuJoCo: steps of the physics in one of the environment")
      .range(1, 1 << 20);
  schema.add("env.horizon", mujoco.horizon, "MuJoCo: steps of an episode").range(1, 1 << 30);
}

void EnvConfig::validate() const {
  check_user(replay >= count, "env.replay = ", replay, " is less than one transition for each of ",
             "env.count = ", count, " environments");
  const std::int64_t least = count * n_step;
  check_user(warmup >= least, "env.warmup = ", warmup,
             " gives no transition of env.n_step = ", n_step,
             " steps of each of env.count = ", count, " environments; it must be at least ", least);
}

MakeEnvironment EnvConfig::environment() const {
  if (name == kMujoco) return make_mujoco(mujoco);
  return [name = name] { return make_environment(name); };
}

ActorConfig EnvConfig::actors(std::uint64_t seed) const {
  ActorConfig config;
  config.environment = environment();
  config.environments = count;
  config.n_step = n_step;
  config.gamma = gamma;
  config.noise = noise;
  config.seed = seed;
  return config;
}

ReplayConfig EnvConfig::memory() const {
  const auto spec = environment()()->spec();
  ReplayConfig config;
  config.environments = count;
  config.rounds = replay / count;
  config.observation = spec.observation;
  config.action = spec.action;
  config.priority_exponent = priority_exponent;
  return config;
}

}  // namespace tessera::env
