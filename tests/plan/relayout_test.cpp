// SPDX-License-Identifier: BSD-3-Clause
#include "plan/relayout.hpp"

#include <random>

#include "support/catch.hpp"
#include "tessera/shape/tile.hpp"

using namespace tessera;
using plan::Change;

namespace {

const MeshShape mesh({{"x", 2}, {"y", 3}, {"z", 2}});
const Shape shape({{"a", 7}, {"b", 5}, {"c", 11}});

State random_state(std::mt19937& random, bool partial) {
  const int pick = static_cast<int>(random() % (partial ? 5 : 4));
  if (pick == 0) return State::replicated();
  if (pick == 4) return State::partial_sum();
  return State::split(pick - 1, random() % 3 == 0);
}

Placement random_placement(std::mt19937& random, bool partial) {
  Placement placement(mesh.rank());
  for (int m = 0; m < mesh.rank(); ++m) placement[m] = random_state(random, partial);
  return placement;
}

/// A gather or exchange on one mesh dim is closed within its groups only if the members' tiles
/// before and after cover the same box of the tensor.
bool groups_cover_equal_boxes(const Placement& before, const Placement& after, int m) {
  for (std::int64_t rank = 0; rank < mesh.size(); ++rank) {
    Coordinates at = mesh.coordinates(rank);
    std::int64_t volume_before = 0, volume_after = 0;
    Box hull_before, hull_after;
    for (int j = 0; j < mesh[m].size; ++j) {
      at[static_cast<std::size_t>(m)] = j;
      const Box b = tile_box(shape, before, mesh, at), a = tile_box(shape, after, mesh, at);
      if (before[m].is_split())
        volume_before += volume(b);
      else
        volume_before = volume(b);
      if (after[m].is_split())
        volume_after += volume(a);
      else
        volume_after = volume(a);
    }
    if (volume_before != volume_after) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("any placement is reached from any other by legal elementary changes") {
  std::mt19937 random(7);
  for (int trial = 0; trial < 4000; ++trial) {
    const Placement from = random_placement(random, true), to = random_placement(random, false);
    Placement current = from;
    for (const auto& change : plan::relayout_path(from, to)) {
      INFO(from.to_string(shape, mesh)
           << " -> " << to.to_string(shape, mesh) << " at " << current.to_string(shape, mesh));
      for (int m = 0; m < mesh.rank(); ++m) {
        const bool touched = std::find(change.mesh_dims.begin(), change.mesh_dims.end(), m) !=
                             change.mesh_dims.end();
        if (!touched) {
          REQUIRE(current[m].kind == change.after[m].kind);
          REQUIRE(current[m].dim == change.after[m].dim);
        }
      }
      const int m = change.mesh_dims[0];
      switch (change.kind) {
        case Change::Kind::slice:
          REQUIRE(current[m].is_replicated());
          REQUIRE(change.after[m].is_split());
          break;
        case Change::Kind::all_reduce:
          for (int d : change.mesh_dims) REQUIRE(current[d].is_partial());
          break;
        case Change::Kind::reduce_scatter:
          REQUIRE(current[m].is_partial());
          REQUIRE(change.after[m].is_split());
          break;
        case Change::Kind::all_gather:
          REQUIRE(current[m].is_split());
          REQUIRE(change.after[m].is_replicated());
          break;
        case Change::Kind::all_to_all:
          REQUIRE(current[m].is_split());
          REQUIRE(change.after[m].is_split());
          break;
        case Change::Kind::neighbour_exchange:
          for (int d : change.mesh_dims) {
            REQUIRE(current[d].is_split());
            REQUIRE(change.after[d].dim == current[d].dim);
          }
          current = change.after;
          continue;
        default:
          REQUIRE(false);
      }
      REQUIRE(groups_cover_equal_boxes(current, change.after, m));
      current = change.after;
    }
    REQUIRE(plan::same_tiles(current, to));
  }
}

TEST_CASE("the cheapest way is taken: slices are free and come before reductions") {
  Placement from(3), to(3);
  from[0] = State::partial_sum();
  to[0] = State::replicated();
  to[1] = State::split(2);
  const auto path = plan::relayout_path(from, to);
  REQUIRE(path.size() == 2);
  CHECK(path[0].kind == Change::Kind::slice);
  CHECK(path[1].kind == Change::Kind::all_reduce);
  const TensorSpec spec{shape, DType::f32};
  CHECK(plan::relayout_bytes(spec, from, to, mesh) == 7 * 5 * 4 * 4);  // ceil(11/3) = 4
  to[0] = State::split(0);
  CHECK(plan::relayout_path(from, to)[1].kind == Change::Kind::reduce_scatter);
}

TEST_CASE("reductions over several mesh dims are one all_reduce") {
  Placement from(3), to(3);
  from[0] = from[2] = State::partial_sum();
  const auto path = plan::relayout_path(from, to);
  REQUIRE(path.size() == 1);
  CHECK(path[0].mesh_dims == std::vector<int>{0, 2});
}

TEST_CASE("cuts of one dim in another order are exchanged, not gathered") {
  Placement from(3), to(3);
  from[0] = State::split(2, true);
  from[1] = to[0] = to[1] = State::split(2);
  const auto path = plan::relayout_path(from, to);
  REQUIRE(path.size() == 1);
  CHECK(path[0].kind == Change::Kind::neighbour_exchange);
  CHECK(path[0].mesh_dims == std::vector<int>{0, 1});
  // An outer cut is added by a slice and an exchange.
  from[0] = State::replicated();
  const auto added = plan::relayout_path(from, to);
  REQUIRE(added.size() == 2);
  CHECK(added[0].kind == Change::Kind::slice);
  CHECK(added[1].kind == Change::Kind::neighbour_exchange);
}
