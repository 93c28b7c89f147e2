// SPDX-License-Identifier: BSD-3-Clause
#include <cmath>
#include <limits>

#include "collective_check.hpp"
#include "support/catch.hpp"
#include "tessera/base/error.hpp"
#include "tessera/comm/simulated_collectives.hpp"

using namespace tessera;
using comm::MeshDims;
using comm::ReduceOp;
using comm::SimulatedCollectives;
using program::CollectiveKind;

TEST_CASE("simulated collectives bring what their definition says, on any mesh") {
  for (const char* text :
       {"", "a:1", "a:2", "a:3", "a:4", "a:2,b:2", "a:3,b:2", "a:2,b:1,c:2", "a:2,b:2,c:2"}) {
    SimulatedCollectives collectives(MeshShape::parse(text, 0));
    for (bool as_flights : {false, true}) {
      const auto failures = test::check_all_collectives(collectives, as_flights);
      for (const auto& failure : failures) FAIL_CHECK(failure);
      CHECK(failures.empty());
    }
  }
}

TEST_CASE("a NaN on any rank is the max and the min of all") {
  SimulatedCollectives collectives(MeshShape::parse("a:3", 0));
  for (std::size_t at = 0; at < 3; ++at)
    for (ReduceOp op : {ReduceOp::max, ReduceOp::min}) {
      std::vector<float> values{1, 2, 3};
      values[at] = std::numeric_limits<float>::quiet_NaN();
      const std::vector<void*> buffers{&values[0], &values[1], &values[2]};
      collectives.all_reduce({0}, op, DType::f32, buffers, std::vector<std::int64_t>{1, 1, 1});
      for (float value : values) CHECK(std::isnan(value));
    }
}

TEST_CASE("host services of a simulated mesh combine all its ranks") {
  SimulatedCollectives collectives(MeshShape::parse("a:3", 0));
  const std::vector<std::vector<double>> values{{1, 9}, {2, 8}, {4, 7}};
  CHECK(collectives.sum_over_ranks(values) == std::vector<double>{7, 24});
  CHECK(collectives.max_over_ranks(values) == std::vector<double>{4, 9});
  CHECK(collectives.gather_over_ranks(values) == values);
  CHECK(collectives.world().size() == 1);
}

TEST_CASE("sums are in rank order") {
  // (1e8 + 1) - 1e8 and (1e8 - 1e8) + 1 differ in f32.
  SimulatedCollectives collectives(MeshShape::parse("a:3", 0));
  std::vector<float> values{1e8f, 1.0f, -1e8f};
  const float expected = (values[0] + values[1]) + values[2];
  const std::vector<void*> buffers{&values[0], &values[1], &values[2]};
  collectives.all_reduce({0}, ReduceOp::sum, DType::f32, buffers,
                         std::vector<std::int64_t>{1, 1, 1});
  CHECK(values[0] == expected);
  CHECK(values[2] == expected);
  CHECK(expected == 0.0f);
}

TEST_CASE("the ledger books payload by section and skips groups of one rank") {
  SimulatedCollectives collectives(MeshShape::parse("a:2,b:1,c:2", 0));
  std::vector<std::vector<float>> data(4, std::vector<float>(8));
  std::vector<void*> buffers;
  for (auto& d : data) buffers.push_back(d.data());
  const auto reduce = [&](const MeshDims& dims, std::vector<std::int64_t> counts) {
    collectives.all_reduce(dims, ReduceOp::sum, DType::f32, buffers, counts);
  };
  reduce({0}, {8, 8, 8, 8});  // no section: not booked
  collectives.ledger().set_section("micro");
  reduce({0}, {3, 5, 3, 5});
  reduce({0}, {1, 2, 1, 2});
  reduce({1}, {8, 8, 8, 8});  // groups of one
  reduce({}, {8, 8, 8, 8});
  collectives.ledger().set_section("update");
  reduce({0}, {2, 2, 2, 2});
  const auto rows = comm::rows_over_ranks(collectives);
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].section == "micro");
  CHECK(rows[0].op == CollectiveKind::all_reduce);
  CHECK(rows[0].mesh_dims == MeshDims{0});
  CHECK(rows[0].count == 2);
  CHECK(rows[0].bytes == 4 * (5 + 2));
  CHECK(rows[0].bytes_all_ranks == 4 * 2 * (3 + 5 + 1 + 2));
  CHECK(rows[1].section == "update");
  CHECK(rows[1].bytes_all_ranks == 4 * 8);
  collectives.ledger().clear();
  CHECK(collectives.ledger().rows().empty());
}

TEST_CASE("what can't be meant is refused") {
  SimulatedCollectives collectives(MeshShape::parse("a:2", 0));
  std::vector<float> x(4), y(4);
  const std::vector<void*> buffers{x.data(), y.data()};
  const std::vector<const void*> send{x.data(), y.data()};
  CHECK_THROWS_AS(collectives.all_reduce({0}, ReduceOp::sum, DType::bf16, buffers,
                                         std::vector<std::int64_t>{2, 2}),
                  Error);
  CHECK_THROWS_AS(collectives.all_reduce({0}, ReduceOp::sum, DType::f32, buffers,
                                         std::vector<std::int64_t>{2, 3}),
                  Error);
  const std::vector<std::vector<std::int64_t>> one{{1, 1}, {1, 1}}, two{{1, 1}, {2, 1}};
  CHECK_THROWS_AS(collectives.all_to_all({0}, DType::f32, send, one, buffers, two), Error);
  CHECK_THROWS_AS(collectives.all_gather({0}, DType::f32, send, buffers, two), Error);
}
