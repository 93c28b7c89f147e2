// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/env/actors.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tessera/base/error.hpp"
#include "tessera/base/hash.hpp"
#include "tessera/base/philox.hpp"

namespace tessera::env {
namespace {

/// Number `index` of a stream's `step`, standard normal (Box and Muller).
double normal_draw(std::uint64_t key, std::int64_t step, std::int64_t index) {
  const auto at = static_cast<std::uint64_t>(step);
  const auto i = static_cast<std::uint64_t>(index);
  const double radius = std::sqrt(-2 * std::log(uniform_of(random_word(key, at, 2 * i))));
  const double angle = 2 * std::numbers::pi * uniform_of(random_word(key, at, 2 * i + 1));
  return radius * std::cos(angle);
}

}  // namespace

Actors::Actors(const ActorConfig& config, const Placement& placement,
               const comm::Collectives& collectives)
    : config_(config), spec_(config.environment()->spec()), placement_(placement) {
  TESSERA_CHECK(config.environments >= 1, "actors without environments");
  const auto& mesh = collectives.mesh();
  const Shape shape{{"environment", config.environments}};
  for (int rank : collectives.local_ranks()) {
    Shard shard;
    shard.environments = tile_box(shape, placement, mesh, mesh.coordinates(rank))[0];
    const auto count = static_cast<std::size_t>(shard.environments.size());
    shard.observations.resize(count * static_cast<std::size_t>(spec_.observation));
    for (std::size_t i = 0; i < count; ++i) {
      shard.actors.push_back({config.environment(),
                              NStep(config.n_step, config.gamma, spec_.observation, spec_.action),
                              shard.environments.begin + static_cast<std::int64_t>(i),
                              0,
                              0,
                              {}});
      begin_episode(shard, i);
    }
    shards_.push_back(std::move(shard));
  }
}

void Actors::begin_episode(Shard& shard, std::size_t i) {
  Actor& actor = shard.actors[i];
  const auto size = static_cast<std::size_t>(spec_.observation);
  actor.so_far = {actor.index, actor.episode, 0, 0};
  actor.environment->reset({config_.seed, actor.index, actor.episode},
                           std::span(shard.observations).subspan(i * size, size));
}

std::span<const float> Actors::observations(int local_rank) const {
  return shards_[static_cast<std::size_t>(local_rank)].observations;
}

Interval Actors::environments(int local_rank) const {
  return shards_[static_cast<std::size_t>(local_rank)].environments;
}

std::vector<float> Actors::explored(const Actor& actor, std::span<const float> action,
                                    Explore explore) const {
  if (explore == Explore::none) return {action.begin(), action.end()};
  const bool is_uniform = explore == Explore::uniform;
  const auto key =
      stream_key(stream_key(config_.seed, hash_text(is_uniform ? "warmup" : "exploration")),
                 static_cast<std::uint64_t>(actor.index));
  std::vector<float> result;
  for (int i = 0; i < spec_.action; ++i) {
    const auto number = static_cast<std::uint64_t>(i);
    const auto at = static_cast<std::uint64_t>(actor.steps);
    const double value =
        is_uniform ? 2 * uniform_of(random_word(key, at, number)) - 1
                   : std::clamp(action[number] + config_.noise * normal_draw(key, actor.steps, i),
                                -1.0, 1.0);
    result.push_back(static_cast<float>(value));
  }
  return result;
}

void Actors::step(int local_rank, std::span<const float> actions, Explore explore, Replay* replay) {
  Shard& shard = shards_[static_cast<std::size_t>(local_rank)];
  TESSERA_CHECK(explore == Explore::uniform ||
                    actions.size() == shard.actors.size() * static_cast<std::size_t>(spec_.action),
                actions.size(), " numbers for the actions of ", shard.actors.size(),
                " environments");
  const auto observation = static_cast<std::size_t>(spec_.observation);
  const auto size = static_cast<std::size_t>(spec_.action);
  std::vector<float> next(observation);
  for (std::size_t i = 0; i < shard.actors.size(); ++i) {
    Actor& actor = shard.actors[i];
    const auto chosen = actions.empty() ? actions : actions.subspan(i * size, size);
    const auto action = explored(actor, chosen, explore);
    const auto before = std::span(shard.observations).subspan(i * observation, observation);
    const Outcome outcome = actor.environment->step(action, next);
    actor.so_far.reward += outcome.reward;
    actor.so_far.sparse_reward += outcome.sparse_reward;
    actor.returns.add(before, action, outcome.reward, outcome.discount, next, outcome.last,
                      [&](const Transition& transition) {
                        if (replay) replay->add(local_rank, actor.index, transition);
                      });
    std::copy(next.begin(), next.end(), before.begin());
    ++actor.steps;
    if (!outcome.last) continue;
    shard.ended.push_back(actor.so_far);
    ++actor.episode;
    begin_episode(shard, i);
  }
}

std::vector<Episode> Actors::take_episodes(int local_rank) {
  return std::exchange(shards_[static_cast<std::size_t>(local_rank)].ended, {});
}

std::int64_t Actors::state_size() const {
  const NStep returns(config_.n_step, config_.gamma, spec_.observation, spec_.action);
  return spec_.state + returns.state_size() + spec_.observation + 4;
}

std::vector<io::SavedTensor> Actors::saved() const {
  const auto size = static_cast<std::size_t>(state_size());
  for (const auto& shard : shards_) {
    shard.saved.assign(shard.actors.size() * size, 0.0);
    for (std::size_t i = 0; i < shard.actors.size(); ++i) {
      const Actor& actor = shard.actors[i];
      const auto to = std::span(shard.saved).subspan(i * size, size);
      const auto state = static_cast<std::size_t>(spec_.state);
      const auto returns = static_cast<std::size_t>(actor.returns.state_size());
      actor.environment->save(to.first(state));
      actor.returns.save(to.subspan(state, returns));
      auto rest = to.subspan(state + returns);
      rest[0] = static_cast<double>(actor.episode);
      rest[1] = static_cast<double>(actor.steps);
      rest[2] = actor.so_far.reward;
      rest[3] = actor.so_far.sparse_reward;
      for (std::size_t k = 0; k < static_cast<std::size_t>(spec_.observation); ++k)
        rest[4 + k] = shard.observations[i * static_cast<std::size_t>(spec_.observation) + k];
    }
  }
  return {
      {"/env/actors",
       {{{"environment", config_.environments}, {"number", state_size()}}, DType::f64},
       placement_,
       [this](int r) -> const void* { return shards_[static_cast<std::size_t>(r)].saved.data(); }}};
}

std::vector<io::LoadedTensor> Actors::loaded() {
  const auto put = [this](int r, const void* tile) {
    Shard& shard = shards_[static_cast<std::size_t>(r)];
    const auto size = static_cast<std::size_t>(state_size());
    const auto observation = static_cast<std::size_t>(spec_.observation);
    for (std::size_t i = 0; i < shard.actors.size(); ++i) {
      Actor& actor = shard.actors[i];
      const std::span from(static_cast<const double*>(tile) + i * size, size);
      const auto state = static_cast<std::size_t>(spec_.state);
      const auto returns = static_cast<std::size_t>(actor.returns.state_size());
      actor.environment->load(from.first(state));
      actor.returns.load(from.subspan(state, returns));
      const auto rest = from.subspan(state + returns);
      actor.episode = static_cast<std::int64_t>(rest[0]);
      actor.steps = static_cast<std::int64_t>(rest[1]);
      actor.so_far = {actor.index, actor.episode, rest[2], rest[3]};
      for (std::size_t k = 0; k < observation; ++k)
        shard.observations[i * observation + k] = static_cast<float>(rest[4 + k]);
    }
  };
  return {{"/env/actors",
           {{{"environment", config_.environments}, {"number", state_size()}}, DType::f64},
           placement_,
           put}};
}

}  // namespace tessera::env
