// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/program/exchange.hpp"
#include "exchange_check.hpp"
#include "support/catch.hpp"
#include "support/simulated_run.hpp"
#include "tessera/plan/report.hpp"

using namespace tessera;
using namespace tessera::test;

TEST_CASE("windows of any placement are what plain loops say, and their adjoint too") {
  for (const char* text : {"", "p:2", "p:3", "p:8", "p:2,q:2", "p:3,q:2", "p:2,q:3,r:2"}) {
    const MeshShape mesh = MeshShape::parse(text, 0);
    for (unsigned seed = 0; seed < 60; ++seed) {
      INFO(text << " seed " << seed);
      const auto program = random_exchange(mesh, seed);
      comm::SimulatedCollectives collectives(mesh, &shared_exec());
      for (const auto& failure : check_exchange(program, collectives)) FAIL(failure);
      const auto planned = plan::collectives_of(program, program.sections[0]);
      const auto counted = collectives.ledger().rows();
      REQUIRE(planned.size() == counted.size());
      for (const auto& row : planned) {
        const auto same = std::find_if(counted.begin(), counted.end(), [&](const auto& other) {
          return other.mesh_dims == row.mesh_dims;
        });
        REQUIRE(same != counted.end());
        CHECK(same->op == program::CollectiveKind::neighbour_exchange);
        CHECK(same->count == row.count);
        CHECK(same->bytes == row.bytes);
        CHECK(same->bytes_all_ranks == row.bytes_all_ranks);
        CHECK(same->messages == row.messages);
      }
    }
  }
}

TEST_CASE("a tensor is brought from any placement to any other") {
  for (const char* text : {"p:3", "p:2,q:3", "p:2,q:2,r:2"}) {
    const MeshShape mesh = MeshShape::parse(text, 0);
    int exchanges = 0;
    for (unsigned seed = 0; seed < 300; ++seed) {
      INFO(text << " seed " << seed);
      const auto program = random_relayout(mesh, seed);
      comm::SimulatedCollectives collectives(mesh, &shared_exec());
      for (const auto& failure : check_relayout(program, collectives)) FAIL(failure);
      for (const auto& row : plan::collectives_of(program, program.sections[0]))
        exchanges += row.op == program::CollectiveKind::neighbour_exchange;
    }
    CHECK((exchanges > 0) == (mesh.rank() > 1));
  }
}

TEST_CASE("the largest window is found without a look at the ranks") {
  const Shape shape{{"n", 1000}};
  const MeshShape mesh({{"p", 7}});
  Placement placement(1);
  placement[0] = State::split(0);
  for (const Window& window : {Window::halo(1000, 2, 3), Window::sliding(300, 3, 1, 4),
                               Window{100, 10, 0, 10, Window::Outside::clip}}) {
    std::int64_t largest = 0;
    for (int i = 0; i < 7; ++i)
      largest = std::max(largest, volume(tile_box(shape, placement, {window}, mesh, {i})));
    CHECK(largest_tile(shape, placement, {window}, mesh)[0] == largest);
  }
}

TEST_CASE("what an exchange sends is counted along the cut dim") {
  std::vector<program::Buffer> buffers(2);
  for (auto& buffer : buffers) {
    buffer.spec.shape = {{"n", 12}};
    buffer.placement = Placement({State::split(0)});
  }
  program::ExchangeStep step;
  step.mesh_dims = {0};
  step.inputs = {0};
  step.outputs = {1};
  const MeshShape mesh({{"p", 4}});
  buffers[1].windows = {Window::halo(12, 1, 1)};
  step.runs = program::runs_of(buffers[1].windows[0], 12);
  auto load = program::load_of(buffers, step, mesh);
  CHECK(load.sent == std::vector<std::int64_t>{1, 2, 2, 1});
  CHECK(load.messages == load.sent);
  CHECK(load.received == load.sent);
  // A halo wider than a neighbour's tile comes from two ranks on each side.
  buffers[1].windows = {Window::halo(12, 5, 0)};
  load = program::load_of(buffers, step, mesh);
  CHECK(load.received == std::vector<std::int64_t>{0, 3, 5, 5});
  CHECK(load.messages == std::vector<std::int64_t>{2, 2, 1, 0});
  // Around the corner.
  buffers[1].windows = {Window::halo(12, 1, 0, Window::Outside::wrap)};
  step.runs = program::runs_of(buffers[1].windows[0], 12);
  CHECK(program::load_of(buffers, step, mesh).sent == std::vector<std::int64_t>{1, 1, 1, 1});
}
