// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/env/replay.hpp"

#include <cmath>
#include <map>

#include "support/catch.hpp"
#include "tessera/base/error.hpp"
#include "tessera/comm/simulated_collectives.hpp"

using namespace tessera;
using namespace tessera::env;

namespace {

constexpr std::int64_t kEnvironments = 5, kRounds = 4;

/// A transition that tells where it comes from.
Transition transition(std::int64_t environment, std::int64_t number) {
  const auto e = static_cast<float>(environment), n = static_cast<float>(number);
  return {{e, n}, {e - n}, static_cast<double>(10 * e + n), 0.5, {n, e}};
}

/// A replay on a mesh whose first dim cuts the environments, filled with `added` transitions each.
struct Filled {
  comm::SimulatedCollectives collectives;
  Placement placement;
  Replay replay;

  Filled(const std::string& mesh, double exponent, std::int64_t added)
      : collectives(MeshShape::parse(mesh, 0)),
        placement(split(collectives.mesh())),
        replay({kEnvironments, kRounds, 2, 1, exponent}, placement, collectives) {
    for (std::int64_t n = 0; n < added; ++n) {
      for (std::size_t r = 0; r < collectives.local_ranks().size(); ++r) {
        const auto mine = replay.environments(static_cast<int>(r));
        for (auto e = mine.begin; e < mine.end; ++e)
          replay.add(static_cast<int>(r), e, transition(e, n));
      }
      replay.publish();
    }
  }

  static Placement split(const MeshShape& mesh) {
    Placement placement(mesh.rank());
    placement[0] = State::split(0);
    return placement;
  }
};

}  // namespace

TEST_CASE("draws are the same on every mesh, and the rows are those drawn") {
  for (double exponent : {0.0, 0.6}) {
    Filled one("batch:1", exponent, 7);
    const auto expected = one.replay.draw(9, 3, 11);
    CHECK(one.replay.size() == kEnvironments * kRounds);
    for (const char* mesh : {"batch:2", "batch:3", "batch:2,model:2", "batch:8"}) {
      INFO(mesh << " exponent " << exponent);
      Filled filled(mesh, exponent, 7);
      const auto items = filled.replay.draw(9, 3, 11);
      CHECK(items == expected);
      const auto rows = filled.replay.rows(items, filled.placement);
      const Shape batch{{"batch", 9}};
      for (std::size_t r = 0; r < rows.size(); ++r) {
        const auto& shape = filled.collectives.mesh();
        const auto box = tile_box(batch, filled.placement, shape,
                                  shape.coordinates(filled.collectives.local_ranks()[r]));
        REQUIRE(rows[r].reward.size() == static_cast<std::size_t>(box[0].size()));
        for (auto row = box[0].begin; row < box[0].end; ++row) {
          const auto& item = items[static_cast<std::size_t>(row)];
          // Transitions 3 … 6 are kept; number n lies in slot n mod 4.
          const auto number = item.slot == 3 ? 3 : item.slot + 4;
          const auto wanted = transition(item.environment, number);
          const auto i = static_cast<std::size_t>(row - box[0].begin);
          CHECK(rows[r].observation[2 * i] == wanted.observation[0]);
          CHECK(rows[r].observation[2 * i + 1] == wanted.observation[1]);
          CHECK(rows[r].action[i] == wanted.action[0]);
          CHECK(rows[r].reward[i] == static_cast<float>(wanted.reward));
          CHECK(rows[r].next[2 * i + 1] == wanted.next[1]);
        }
      }
    }
  }
}

TEST_CASE("uniform draws hit every item about equally often") {
  const Filled filled("batch:2", 0, 3);
  std::map<std::int64_t, int> hits;
  const int count = 30000;
  for (const auto& item : filled.replay.draw(count, 5, 1)) {
    CHECK(item.probability == Approx(1.0 / 15));
    ++hits[item.environment * kRounds + item.slot];
  }
  CHECK(hits.size() == 15);
  double chi = 0;
  for (const auto& [item, hit] : hits) chi += std::pow(hit - count / 15.0, 2) / (count / 15.0);
  CHECK(chi < 36.1);  // 14 degrees of freedom: one in a thousand lies above
}

TEST_CASE("items are drawn in proportion to priority to the exponent") {
  Filled filled("batch:2", 0.5, 2);
  std::vector<ReplayItem> all;
  std::vector<double> priorities;
  double total = 0;
  for (std::int64_t e = 0; e < kEnvironments; ++e)
    for (std::int64_t slot = 0; slot < 2; ++slot) {
      all.push_back({e, slot, 0});
      priorities.push_back(static_cast<double>((e + 1) * (e + 1) * (slot + 1)));
      total += std::sqrt(priorities.back());
    }
  filled.replay.set_priorities(all, priorities);
  std::map<std::int64_t, int> hits;
  const int count = 30000;
  for (const auto& item : filled.replay.draw(count, 5, 1)) {
    const auto i = static_cast<std::size_t>(2 * item.environment + item.slot);
    REQUIRE(item.probability == Approx(std::sqrt(priorities[i]) / total));
    ++hits[static_cast<std::int64_t>(i)];
  }
  double chi = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const double expected = count * std::sqrt(priorities[i]) / total;
    chi += std::pow(hits[static_cast<std::int64_t>(i)] - expected, 2) / expected;
  }
  CHECK(chi < 27.9);  // 9 degrees of freedom
}

TEST_CASE("a replay moves to another mesh with all that draws depend on") {
  Filled from("batch:2,model:2", 0.6, 5);
  from.replay.set_priorities(from.replay.draw(4, 1, 1), std::vector<double>{3, 4, 5, 6});
  Filled to("batch:3", 0.6, 0);
  const auto saved = from.replay.saved();
  const auto loaded = to.replay.loaded();
  REQUIRE(saved.size() == loaded.size());
  for (std::size_t t = 0; t < saved.size(); ++t) {
    // Puts the whole tensor together of the tiles of one mesh, and cuts it for the other.
    const auto bytes = bytes_of(saved[t].spec.dtype);
    const auto row =
        saved[t].spec.shape.size() / saved[t].spec.shape[0].size * static_cast<std::int64_t>(bytes);
    std::vector<char> whole(static_cast<std::size_t>(saved[t].spec.shape[0].size * row));
    const auto visit = [&](const Filled& side, const Placement& placement, const auto& action) {
      const auto& mesh = side.collectives.mesh();
      for (std::size_t r = 0; r < side.collectives.local_ranks().size(); ++r)
        action(static_cast<int>(r),
               tile_box(saved[t].spec.shape, placement, mesh,
                        mesh.coordinates(side.collectives.local_ranks()[r]))[0]);
    };
    visit(from, saved[t].placement, [&](int r, const Interval& box) {
      std::copy_n(static_cast<const char*>(saved[t].tile(r)), box.size() * row,
                  whole.data() + box.begin * row);
    });
    visit(to, loaded[t].placement,
          [&](int r, const Interval& box) { loaded[t].put(r, whole.data() + box.begin * row); });
  }
  to.replay.done();
  const auto items = from.replay.draw(20, 9, 2);
  CHECK(to.replay.draw(20, 9, 2) == items);
  const Placement whole_from(2), whole_to(1);
  CHECK(to.replay.rows(items, whole_to)[1].reward == from.replay.rows(items, whole_from)[1].reward);
}
