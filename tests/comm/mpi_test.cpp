// SPDX-License-Identifier: BSD-3-Clause
#include <cmath>
#include <cstring>
#include <limits>

#include "collective_check.hpp"
#include "support/catch.hpp"
#include "support/pmpi_counter.hpp"
#include "support/world.hpp"
#include "tessera/base/error.hpp"
#include "tessera/comm/mpi_collectives.hpp"
#include "tessera/comm/simulated_collectives.hpp"

using namespace tessera;
using comm::MpiCollectives;
using comm::MpiCollectivesOptions;
using comm::ReduceMode;
using comm::ReduceOp;
using program::CollectiveKind;

namespace {

/// Meshes for the number of ranks that the test runs on.
std::vector<std::string> meshes() {
  switch (test::world().size()) {
    case 1:
      return {"", "a:1"};
    case 2:
      return {"a:2", "a:1,b:2"};
    case 4:
      return {"a:4", "a:2,b:2", "a:2,b:1,c:2"};
    default:
      return {"a:" + std::to_string(test::world().size())};
  }
}

MeshShape mesh_of(const std::string& text) {
  return MeshShape::parse(text, test::world().size());
}

/// Numbers whose sum depends on the order.
float rough(int rank, std::int64_t i) {
  return std::sin(static_cast<float>(i * 37 + rank * 1001)) *
         std::exp2(static_cast<float>((i * 7 + rank * 5) % 20));
}

struct Result {
  std::vector<float> reduced, scattered;
};

/// all_reduce and reduce_scatter over all dims of the mesh, on the given backend.
std::vector<Result> reduce_rough_numbers(comm::Collectives& collectives, std::int64_t count) {
  const int size = static_cast<int>(collectives.mesh().size());
  std::vector<int> dims;
  for (int dim = 0; dim < collectives.mesh().rank(); ++dim) dims.push_back(dim);
  std::vector<Result> results;
  std::vector<std::vector<float>> send;
  std::vector<std::vector<std::int64_t>> counts;
  for (int rank : collectives.local_ranks()) {
    Result& result = results.emplace_back();
    for (std::int64_t i = 0; i < count; ++i) result.reduced.push_back(rough(rank, i));
    auto& pieces = counts.emplace_back();
    auto& data = send.emplace_back();
    for (int member = 0; member < size; ++member) {
      pieces.push_back(count / 3 + member * 2);
      for (std::int64_t i = 0; i < pieces.back(); ++i) data.push_back(rough(rank + member, i));
    }
    result.scattered.resize(static_cast<std::size_t>(pieces[static_cast<std::size_t>(rank)]));
  }
  std::vector<void*> buffers, receive;
  std::vector<const void*> from;
  for (std::size_t r = 0; r < results.size(); ++r) {
    buffers.push_back(results[r].reduced.data());
    receive.push_back(results[r].scattered.data());
    from.push_back(send[r].data());
  }
  collectives.all_reduce(dims, ReduceOp::sum, DType::f32, buffers,
                         std::vector<std::int64_t>(results.size(), count));
  collectives.reduce_scatter(dims, DType::f32, from, receive, counts);
  return results;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace

TEST_CASE("MPI collectives bring what their definition says, however they are cut") {
  std::vector<MpiCollectivesOptions> variants(5);
  variants[1].piece_bytes = 8;  // cut into many calls
  variants[2].reduce = ReduceMode::ordered;
  variants[3].reduce = ReduceMode::ordered;
  variants[3].piece_bytes = 20;
  variants[4].largest_offset = 2;  // most go through packed buffers
  for (const auto& text : meshes())
    for (const auto& options : variants) {
      MpiCollectives collectives(mesh_of(text), test::world(), options);
      for (bool as_flights : {false, true}) {
        const auto failures = test::check_all_collectives(collectives, as_flights);
        for (const auto& failure : failures) FAIL_CHECK(failure);
        CHECK(test::on_all_ranks(failures.empty()));
      }
    }
}

TEST_CASE(
    "flights that are under way together equal collectives that are waited for, bit for bit") {
  const int size = test::world().size();
  for (ReduceMode mode : {ReduceMode::mpi, ReduceMode::ordered})
    for (std::int64_t piece : {std::int64_t{0}, std::int64_t{4000}}) {
      MpiCollectivesOptions options;
      options.reduce = mode;
      options.piece_bytes = piece;
      MpiCollectives collectives(mesh_of(meshes()[0]), test::world(), options);
      const comm::MeshDims dims = test::subsets(collectives.mesh().rank()).back();
      const auto expected = reduce_rough_numbers(collectives, 3'001)[0];
      // More flights than there are tracks, finished in another order than they were started.
      constexpr std::size_t kFlights = 6;
      std::vector<std::vector<float>> data(kFlights);
      std::vector<std::vector<void*>> pointers(kFlights);
      std::vector<std::unique_ptr<comm::Flight>> flights;
      const std::vector<std::int64_t> counts{3'001};
      bool good = true;
      for (std::size_t f = 0; f < kFlights; ++f) {
        for (std::int64_t i = 0; i < counts[0]; ++i)
          data[f].push_back(rough(test::world().rank(), i));
        pointers[f] = {data[f].data()};
        flights.push_back(
            collectives.start_all_reduce(dims, ReduceOp::sum, DType::f32, pointers[f], counts));
        std::vector<double> one{1.0};
        const std::vector<void*> buffers{one.data()};
        collectives.all_reduce(dims, ReduceOp::sum, DType::f64, buffers,
                               std::vector<std::int64_t>{1});
        good = good && one[0] == size;
        // Ranks get on with the calls of their flights as they like.
        for (int turn = 0; turn < test::world().rank() * 3; ++turn)
          for (auto& flight : flights) flight->test();
      }
      for (std::size_t f = kFlights; f-- > 0;) {
        flights[f]->finish();
        good = good && same_bits(data[f], expected.reduced);
      }
      CHECK(test::on_all_ranks(good));
    }
}

TEST_CASE("ordered sums are bitwise those of a simulated mesh, cut or whole") {
  for (const auto& text : meshes())
    for (std::int64_t piece : {std::int64_t{0}, std::int64_t{4000}}) {
      MpiCollectivesOptions options;
      options.reduce = ReduceMode::ordered;
      options.piece_bytes = piece;
      MpiCollectives collectives(mesh_of(text), test::world(), options);
      comm::SimulatedCollectives simulated(mesh_of(text));
      const auto mine = reduce_rough_numbers(collectives, 10'007)[0];
      const auto all = reduce_rough_numbers(simulated, 10'007);
      const auto& expected = all[static_cast<std::size_t>(collectives.local_ranks()[0])];
      CHECK(test::on_all_ranks(same_bits(mine.reduced, expected.reduced)));
      CHECK(test::on_all_ranks(same_bits(mine.scattered, expected.scattered)));
    }
}

TEST_CASE("sums in MPI's order repeat bitwise and are equal on all ranks") {
  MpiCollectives collectives(mesh_of(meshes()[0]), test::world());
  const auto first = reduce_rough_numbers(collectives, 5'003)[0];
  const auto second = reduce_rough_numbers(collectives, 5'003)[0];
  CHECK(same_bits(first.reduced, second.reduced));
  CHECK(same_bits(first.scattered, second.scattered));
  const auto bytes = test::world().gather(std::as_bytes(std::span(first.reduced)));
  bool equal = true;
  for (std::size_t i = 0; i < bytes.size(); ++i)
    equal = equal && bytes[i] == bytes[i % (first.reduced.size() * sizeof(float))];
  CHECK(equal);
}

TEST_CASE("a NaN on any rank is the max and the min on all ranks") {
  MpiCollectives collectives(mesh_of(meshes()[0]), test::world());
  if (test::world().size() == 1) return;
  for (int at = 0; at < test::world().size(); ++at)
    for (ReduceOp op : {ReduceOp::max, ReduceOp::min}) {
      const bool here = test::world().rank() == at;
      std::vector<double> values{1.0, here ? std::nan("") : 2.0, 3.0};
      const std::vector<void*> buffers{values.data()};
      collectives.all_reduce({0}, op, DType::f64, buffers, std::vector<std::int64_t>{3});
      CHECK(test::on_all_ranks(values[0] == 1.0 && std::isnan(values[1]) && values[2] == 3.0));
    }
}

TEST_CASE("host services combine all ranks") {
  const int size = test::world().size(), rank = test::world().rank();
  MpiCollectives collectives(mesh_of(meshes()[0]), test::world());
  const std::vector<std::vector<double>> mine{{double(rank), 10.0 - rank}};
  double sum = 0;
  for (int r = 0; r < size; ++r) sum += r;
  CHECK(collectives.sum_over_ranks(mine) == std::vector<double>{sum, 10.0 * size - sum});
  CHECK(collectives.max_over_ranks(mine) == std::vector<double>{size - 1.0, 10.0});
  const auto all = collectives.gather_over_ranks(mine);
  REQUIRE(all.size() == static_cast<std::size_t>(size));
  CHECK(all.back() == std::vector<double>{size - 1.0, 11.0 - size});
}

TEST_CASE("bf16 is moved but not reduced") {
  MpiCollectives collectives(mesh_of(meshes()[0]), test::world());
  std::vector<std::uint16_t> data(4);
  const std::vector<void*> buffers{data.data()};
  CHECK_THROWS_AS(
      collectives.all_reduce({}, ReduceOp::sum, DType::bf16, buffers, std::vector<std::int64_t>{4}),
      Error);
}

TEST_CASE("MPI itself is asked for what the ledger says") {
  const std::string text = meshes().back();
  MpiCollectives collectives(mesh_of(text), test::world());
  test::check_all_collectives(collectives);  // makes the sub-communicators
  collectives.ledger().set_section("test");
  test::start_counting();
  test::check_all_collectives(collectives);
  const auto counted = test::stop_counting();
  test::MpiCounts booked;
  for (const auto& row : collectives.ledger().rows()) {
    const int size = static_cast<int>(collectives.mesh().group_size(row.mesh_dims));
    const bool by_messages = row.op == CollectiveKind::neighbour_exchange;
    if (by_messages && row.messages == 0) continue;
    auto& entry = booked[{by_messages ? "send" : program::name_of(row.op), size}];
    entry.calls += by_messages ? row.messages : row.count;
    entry.bytes += row.bytes_all_ranks;  // of this rank, the only local one
  }
  for (const auto& [key, calls] : counted) {
    if (key.first == "broadcast") continue;  // no Program holds one
    INFO(key.first << " in groups of " << key.second);
    CHECK(booked[key].calls == calls.calls);
    CHECK(booked[key].bytes == calls.bytes);
  }
  CHECK(counted.size() >= booked.size());
  CHECK((test::world().size() == 1) == booked.empty());
  // Over all ranks the ledger is that of a simulated mesh.
  comm::SimulatedCollectives simulated(mesh_of(text));
  simulated.ledger().set_section("test");
  test::check_all_collectives(simulated);
  const auto expected = comm::rows_over_ranks(simulated), rows = comm::rows_over_ranks(collectives);
  REQUIRE(test::on_all_ranks(rows.size() == expected.size()));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    CHECK(rows[i].op == expected[i].op);
    CHECK(rows[i].mesh_dims == expected[i].mesh_dims);
    CHECK(rows[i].count == expected[i].count);
    CHECK(rows[i].bytes == expected[i].bytes);
    CHECK(rows[i].bytes_all_ranks == expected[i].bytes_all_ranks);
    CHECK(rows[i].messages == expected[i].messages);
  }
}
