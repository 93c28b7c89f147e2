// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/acting.hpp"

#include <algorithm>
#include <array>

#include "tessera/base/hash.hpp"
#include "tessera/train/session.hpp"

namespace tessera::train {

Placement environment_placement(const Session& session) {
  const Shape shape{{"environment", session.settings.env.count}};
  return session.compiled.layout.placement("environment", shape, session.compiled.mesh);
}

bool speaks_for_environments(const Session& session, int local_rank) {
  const auto& mesh = session.compiled.mesh;
  const auto at =
      mesh.coordinates(session.collectives->local_ranks()[static_cast<std::size_t>(local_rank)]);
  const auto copies = environment_placement(session).replicated_mesh_dims();
  return std::all_of(copies.begin(), copies.end(),
                     [&](int dim) { return at[static_cast<std::size_t>(dim)] == 0; });
}

void act(const Session& session, env::Actors& actors, env::Explore explore, env::Replay* replay) {
  auto& executor = *session.executor;
  for (int r = 0; r < executor.local_ranks(); ++r)
    executor.set_input("act", "observation", r, actors.observations(r).data());
  executor.run("act", kernels::Feeds{});
  const int variable = session.compiled.task->variables().find("action");
  for (int r = 0; r < executor.local_ranks(); ++r) {
    std::vector<float> actions(
        static_cast<std::size_t>(volume(executor.variable_box(variable, r))));
    executor.read_variable(variable, r, actions.data());
    actors.step(r, actions, explore, replay);
  }
}

namespace {

/// This process's shares of what counts in an evaluation: episodes, their rewards.
std::array<double, 3> ended(const Session& session, env::Actors& actors, std::int64_t episodes) {
  std::array<double, 3> shares{};
  for (int r = 0; r < session.executor->local_ranks(); ++r) {
    const auto taken = actors.take_episodes(r);
    if (!speaks_for_environments(session, r)) continue;
    for (const auto& episode : taken) {
      const auto place = episode.number * actors.config().environments + episode.environment;
      if (place >= episodes) continue;
      shares[0] += 1;
      shares[1] += episode.reward;
      shares[2] += episode.sparse_reward;
    }
  }
  return shares;
}

}  // namespace

Evaluation evaluate_policy(const Session& session, std::int64_t episodes, const StopWatch* watch) {
  constexpr int kStepsAtATime = 100;
  const auto seed =
      hash_combine(static_cast<std::uint64_t>(session.settings.run.seed), hash_text("evaluation"));
  env::Actors actors(session.settings.env.actors(seed), environment_placement(session),
                     *session.collectives);
  Evaluation result;
  std::array<double, 3> totals{};
  while (totals[0] < static_cast<double>(episodes)) {
    for (int step = 0; step < kStepsAtATime; ++step)
      act(session, actors, env::Explore::none, nullptr);
    const auto mine = ended(session, actors, episodes);
    std::vector<double> shares(mine.begin(), mine.end());
    if (watch)
      for (double vote : watch->votes()) shares.push_back(vote);
    const auto sums = session.sum(shares);
    for (std::size_t i = 0; i < totals.size(); ++i) totals[i] += sums[i];
    if (watch) result.stop = StopWatch::decide(&sums[totals.size()]);
    if (result.stop != Stop::none && totals[0] < static_cast<double>(episodes)) return result;
    result.stop = Stop::none;
  }
  result.record.measure = "reward";
  result.record.is_better_if_larger = true;
  result.record.value = totals[1] / totals[0];
  result.record.metrics.emplace_back("sparse_reward", totals[2] / totals[0]);
  result.record.unit = "episodes";
  result.record.targets = episodes;
  return result;
}

}  // namespace tessera::train
