// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/comm/collectives.hpp"
#include "tessera/env/environment.hpp"
#include "tessera/env/n_step.hpp"
#include "tessera/env/replay.hpp"

namespace tessera::env {

struct ActorConfig {
  MakeEnvironment environment;
  std::int64_t environments = 1;  ///< of the whole job, at least 1
  int n_step = 5;
  double gamma = 0.99;
  double noise = 0.3;  ///< standard deviation of the Gaussian added to actions
  std::uint64_t seed = 0;
};

/// What is done to the actions of the policy.
enum class Explore : std::uint8_t {
  none,
  noise,    ///< Gaussian noise is added
  uniform,  ///< they are drawn uniformly from [-1, 1]; the policy isn't asked
};

/// An episode that ended.
struct Episode {
  std::int64_t environment = 0;
  std::int64_t number = 0;   ///< of this environment's episodes, from 0
  double reward = 0;         ///< sum over the episode
  double sparse_reward = 0;  ///< sum over the episode
};

/// The environments of this process's ranks, all in step. An environment's noise and starts are
/// functions of (seed, its index, its step or episode), so what it lives through is the same on
/// every mesh.
class Actors {
 public:
  /// `placement`: of a tensor [environment].
  Actors(const ActorConfig& config, const Placement& placement,
         const comm::Collectives& collectives);

  const ActorConfig& config() const { return config_; }
  const EnvironmentSpec& spec() const { return spec_; }
  /// Observations [environment, observation] of a local rank's environments.
  std::span<const float> observations(int local_rank) const;
  /// The environments of a local rank.
  Interval environments(int local_rank) const;
  /// One step of a local rank's environments by actions [environment, action] of the policy (may be
  /// empty if it isn't asked); transitions go to `replay` (may be null).
  void step(int local_rank, std::span<const float> actions, Explore explore, Replay* replay);
  /// Episodes of a local rank that ended since the last call.
  std::vector<Episode> take_episodes(int local_rank);

  /// "/env/actors": [environment, number] f64, for checkpoints.
  std::vector<io::SavedTensor> saved() const;
  std::vector<io::LoadedTensor> loaded();

 private:
  struct Actor {
    std::unique_ptr<Environment> environment;
    NStep returns;
    std::int64_t index = 0;
    std::int64_t episode = 0;
    std::int64_t steps = 0;  ///< since the start
    Episode so_far;
  };
  struct Shard {
    Interval environments;
    std::vector<Actor> actors;
    std::vector<float> observations;
    std::vector<Episode> ended;
    mutable std::vector<double> saved;
  };

  void begin_episode(Shard& shard, std::size_t actor);
  std::vector<float> explored(const Actor& actor, std::span<const float> action,
                              Explore explore) const;
  std::int64_t state_size() const;

  ActorConfig config_;
  EnvironmentSpec spec_;
  Placement placement_;
  std::vector<Shard> shards_;  ///< by local rank
};

}  // namespace tessera::env
