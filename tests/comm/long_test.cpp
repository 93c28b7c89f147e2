// SPDX-License-Identifier: BSD-3-Clause
#include <cstdint>
#include <vector>

#include "support/catch.hpp"
#include "support/world.hpp"
#include "tessera/comm/mpi_collectives.hpp"

using namespace tessera;

namespace {

constexpr std::int64_t kTwoGiB = std::int64_t{1} << 31;

/// Differs between neighbours, ranks, and places 2^31 and 2^32 bytes apart.
template <class T>
T value(int rank, std::int64_t i) {
  return static_cast<T>((i ^ (i >> 15) ^ (i >> 29)) % 1021 + rank * 3);
}

template <class T>
std::vector<T> filled(int rank, std::int64_t count) {
  std::vector<T> data(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) data[static_cast<std::size_t>(i)] = value<T>(rank, i);
  return data;
}

/// Place of the first element that is not what it should be, or -1.
template <class T, class Expected>
std::int64_t first_wrong(const T* data, std::int64_t count, const Expected& expected) {
  for (std::int64_t i = 0; i < count; ++i)
    if (data[i] != expected(i)) return i;
  return -1;
}

}  // namespace

// Run on 2 ranks; about 13 GiB of memory in all.
TEST_CASE("an all_reduce of 2 GiB and 16 bytes is right to the last element") {
  const int rank = test::world().rank();
  comm::MpiCollectives collectives(MeshShape::parse("a:*", test::world().size()), test::world());
  const std::int64_t count = kTwoGiB / 4 + 4;
  auto data = filled<float>(rank, count);
  const std::vector<void*> buffers{data.data()};
  collectives.all_reduce({0}, comm::ReduceOp::sum, DType::f32, buffers,
                         std::vector<std::int64_t>{count});
  CHECK(first_wrong(data.data(), count,
                    [](std::int64_t i) { return value<float>(0, i) + value<float>(1, i); }) == -1);
}

TEST_CASE("an all_gather of two pieces of 2 GiB and 16 bytes is right to the last element") {
  const int rank = test::world().rank();
  comm::MpiCollectives collectives(MeshShape::parse("a:*", test::world().size()), test::world());
  const std::int64_t count = kTwoGiB / 2 + 8;
  const auto data = filled<std::uint16_t>(rank, count);
  std::vector<std::uint16_t> all(static_cast<std::size_t>(2 * count));
  const std::vector<const void*> send{data.data()};
  const std::vector<void*> receive{all.data()};
  const std::vector<std::vector<std::int64_t>> counts{{count, count}};
  collectives.all_gather({0}, DType::bf16, send, receive, counts);
  for (int r = 0; r < 2; ++r)
    CHECK(first_wrong(all.data() + r * count, count,
                      [r](std::int64_t i) { return value<std::uint16_t>(r, i); }) == -1);
}

TEST_CASE("an all_to_all with one block of 2 GiB and 16 bytes is right to the last element") {
  const int rank = test::world().rank();
  comm::MpiCollectives collectives(MeshShape::parse("a:*", test::world().size()), test::world());
  const std::int64_t many = kTwoGiB / 2 + 8, few = 5;
  // Only rank 0 has much to send, all of it to rank 1.
  const auto data = filled<std::uint16_t>(rank, rank == 0 ? few + many : 2 * few);
  std::vector<std::uint16_t> got(static_cast<std::size_t>(rank == 0 ? 2 * few : few + many));
  const std::vector<const void*> send{data.data()};
  const std::vector<void*> receive{got.data()};
  using Counts = std::vector<std::vector<std::int64_t>>;
  const Counts send_counts{{few, rank == 0 ? many : few}};
  const Counts receive_counts{{rank == 0 ? few : many, few}};
  collectives.all_to_all({0}, DType::bf16, send, send_counts, receive, receive_counts);
  const std::int64_t from_0 = rank == 0 ? 0 : few, n0 = receive_counts[0][0];
  CHECK(first_wrong(got.data(), n0,
                    [&](std::int64_t i) { return value<std::uint16_t>(0, from_0 + i); }) == -1);
  CHECK(first_wrong(got.data() + n0, few, [&](std::int64_t i) {
          return value<std::uint16_t>(1, (rank == 0 ? 0 : few) + i);
        }) == -1);
}

TEST_CASE("a reduce_scatter of 2 GiB and 16 bytes is right to the last element") {
  const int rank = test::world().rank();
  comm::MpiCollectives collectives(MeshShape::parse("a:*", test::world().size()), test::world());
  const std::vector<std::vector<std::int64_t>> counts{{kTwoGiB / 4 - 3, 7}};
  const auto data = filled<float>(rank, kTwoGiB / 4 + 4);
  const std::int64_t mine = counts[0][static_cast<std::size_t>(rank)];
  std::vector<float> got(static_cast<std::size_t>(mine));
  const std::vector<const void*> send{data.data()};
  const std::vector<void*> receive{got.data()};
  collectives.reduce_scatter({0}, DType::f32, send, receive, counts);
  const std::int64_t begin = rank == 0 ? 0 : counts[0][0];
  CHECK(first_wrong(got.data(), mine, [&](std::int64_t i) {
          return value<float>(0, begin + i) + value<float>(1, begin + i);
        }) == -1);
}
