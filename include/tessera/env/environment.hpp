// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

/// Environments of reinforcement learning and what is kept of them. An environment is one of many,
/// known by its index among all of the job: what it does depends on that index and the seed, never
/// on the rank that runs it.
namespace tessera::env {

struct EnvironmentSpec {
  std::string name;
  int observation = 0;      ///< numbers of an observation
  int action = 0;           ///< numbers of an action, each in [-1, 1]
  int horizon = 0;          ///< steps of an episode
  double step_seconds = 0;  ///< of simulated time
  int state = 0;            ///< numbers that state() gives
};

/// Names an episode: its start is a function of these alone.
struct EpisodeKey {
  std::uint64_t seed = 0;
  std::int64_t environment = 0;  ///< index among all of the job
  std::int64_t episode = 0;
};

/// What a step gave.
struct Outcome {
  double reward = 0;         ///< in [0, 1]
  double sparse_reward = 0;  ///< the harder measure of the same task: 1 in the goal, else 0
  double discount = 1;       ///< 0 if the task ended for good, so that nothing follows; else 1
  bool last = false;         ///< the episode is over: by its end or by the horizon
};

class Environment {
 public:
  virtual ~Environment() = default;
  virtual const EnvironmentSpec& spec() const = 0;
  /// Begins an episode and writes its first observation.
  virtual void reset(const EpisodeKey& key, std::span<float> observation) = 0;
  /// Acts for one step and writes the observation after it. Actions are cut to [-1, 1]. Error if
  /// the episode is over.
  virtual Outcome step(std::span<const float> action, std::span<float> observation) = 0;
  /// All that an episode depends on from here, spec().state numbers, for checkpoints.
  virtual void save(std::span<double> state) const = 0;
  virtual void load(std::span<const double> state) = 0;
};

using MakeEnvironment = std::function<std::unique_ptr<Environment>()>;

/// Names of the built-in environments and of those that were added.
std::vector<std::string> environment_names();
/// UserError with the nearest name if there is none of this name.
std::unique_ptr<Environment> make_environment(const std::string& name);
/// Makes a user's environment known. Error if the name is taken.
void add_environment(const std::string& name, MakeEnvironment make);

/// A uniform draw in (0, 1) for the start of an episode: draw number `index` of the episode.
double start_draw(const EpisodeKey& key, std::int64_t index);

}  // namespace tessera::env
