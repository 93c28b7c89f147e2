// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/env/actors.hpp"

#include <array>
#include <cmath>

#include "support/catch.hpp"
#include "tessera/comm/simulated_collectives.hpp"
#include "tessera/env/config.hpp"

using namespace tessera;
using namespace tessera::env;

namespace {

constexpr std::int64_t kEnvironments = 5;

struct Crowd {
  comm::SimulatedCollectives collectives;
  Placement placement;
  Actors actors;
  Replay replay;

  explicit Crowd(const std::string& mesh, double noise = 0.5)
      : collectives(MeshShape::parse(mesh, 0)),
        placement(collectives.mesh().rank()),
        actors({[] { return make_environment("cart_pole"); }, kEnvironments, 3, 0.99, noise, 17},
               split(), collectives),
        replay({kEnvironments, 4000, 5, 1, 0}, placement, collectives) {}

  const Placement& split() {
    placement[0] = State::split(0);
    return placement;
  }
  /// A fixed policy of the observation.
  void run(int steps) {
    for (int s = 0; s < steps; ++s)
      for (int r = 0; r < static_cast<int>(collectives.local_ranks().size()); ++r) {
        const auto seen = actors.observations(r);
        std::vector<float> actions;
        for (std::size_t i = 0; i < seen.size(); i += 5)
          actions.push_back(std::tanh(seen[i + 2] - seen[i] + seen[i + 4] / 4));
        actors.step(r, actions, Explore::noise, &replay);
      }
    replay.publish();
  }
  std::vector<Episode> episodes() {
    std::vector<Episode> all(kEnvironments);
    for (int r = 0; r < static_cast<int>(collectives.local_ranks().size()); ++r)
      for (const auto& episode : actors.take_episodes(r))
        all[static_cast<std::size_t>(episode.environment)] = episode;
    return all;
  }
};

}  // namespace

TEST_CASE("what an environment lives through does not depend on the mesh") {
  Crowd one("batch:1");
  one.run(1100);
  CHECK(one.replay.size() == kEnvironments * (1100 - 2));
  const auto episodes = one.episodes();
  const auto items = one.replay.draw(50, 1, 1);
  const auto rows = one.replay.rows(items, Placement(1))[0];
  for (const char* mesh : {"batch:2", "batch:3", "batch:2,model:2", "batch:8"}) {
    INFO(mesh);
    Crowd crowd(mesh);
    crowd.run(1100);
    CHECK(crowd.replay.draw(50, 1, 1) == items);
    const auto same = crowd.replay.rows(items, Placement(crowd.collectives.mesh().rank()))[0];
    CHECK(same.observation == rows.observation);
    CHECK(same.reward == rows.reward);
    const auto others = crowd.episodes();
    for (std::size_t e = 0; e < episodes.size(); ++e) {
      CHECK(others[e].reward == episodes[e].reward);
      CHECK(others[e].reward > 0);
    }
  }
}

TEST_CASE("exploration has the deviation that was asked for") {
  // Without a policy, actions are the noise alone; 0.2 is hardly ever cut at 1.
  Crowd crowd("batch:1", 0.2);
  for (int s = 0; s < 400; ++s)
    crowd.actors.step(0, std::vector<float>(kEnvironments), Explore::noise, &crowd.replay);
  crowd.replay.publish();
  const auto rows = crowd.replay.rows(crowd.replay.draw(4000, 2, 1), Placement(1))[0];
  double squares = 0, sum = 0;
  for (float action : rows.action) {
    sum += action;
    squares += action * action;
  }
  CHECK(std::abs(sum / 4000) < 0.02);
  CHECK(std::sqrt(squares / 4000) == Approx(0.2).epsilon(0.06));
}

TEST_CASE("warm-up draws actions evenly, without asking a policy") {
  Crowd crowd("batch:1");
  for (int s = 0; s < 400; ++s) crowd.actors.step(0, {}, Explore::uniform, &crowd.replay);
  crowd.replay.publish();
  const auto rows = crowd.replay.rows(crowd.replay.draw(4000, 2, 1), Placement(1))[0];
  std::array<int, 4> counts{};
  for (float action : rows.action) {
    REQUIRE(std::abs(action) < 1);
    ++counts[static_cast<std::size_t>(2 * (action + 1))];
  }
  for (int count : counts) CHECK(count == Approx(1000).epsilon(0.15));
}

TEST_CASE("actors go on from a checkpoint as if nothing had been") {
  Crowd whole("batch:2"), before("batch:2"), after("batch:2");
  whole.run(1020);
  before.run(520);
  const auto saved = before.actors.saved();
  const auto loaded = after.actors.loaded();
  for (int r = 0; r < 2; ++r) loaded[0].put(r, saved[0].tile(r));
  after.run(500);
  for (int r = 0; r < 2; ++r) {
    const auto a = whole.actors.observations(r), b = after.actors.observations(r);
    CHECK(std::vector<float>(a.begin(), a.end()) == std::vector<float>(b.begin(), b.end()));
  }
  const auto expected = whole.episodes(), got = after.episodes();
  for (std::size_t e = 0; e < expected.size(); ++e) CHECK(got[e].reward == expected[e].reward);
}

TEST_CASE("keys of the environments are checked against each other") {
  EnvConfig config;
  CHECK_NOTHROW(config.validate());
  config.warmup = config.count * config.n_step - 1;
  CHECK_THROWS_WITH(config.validate(), Catch::Contains("env.warmup = 39"));
  config = {};
  config.replay = config.count - 1;
  CHECK_THROWS_WITH(config.validate(), Catch::Contains("env.replay = 7"));
  config = {};
  config.replay = 8 * 125 + 7;
  CHECK(config.memory().rounds == 125);
  CHECK(config.memory().observation == 3);
}
