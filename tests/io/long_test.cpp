// SPDX-License-Identifier: BSD-3-Clause
// A tile of more than 2^31 bytes: no call may count it in an int.
#include "io/checkpoint_support.hpp"
#include "support/catch.hpp"
#include "support/world.hpp"
#include "tessera/comm/mpi_collectives.hpp"

using namespace tessera;

TEST_CASE("a tile of 2^31 + 16 bytes on each rank is saved, checked and loaded") {
  const test::Scratch own;
  const std::string folder = test::world().broadcast_text(own.path());
  const std::int64_t columns = (std::int64_t{1} << 29) + 4;  // of 4 bytes
  comm::MpiCollectives ranks(MeshShape::parse(concat("a:", test::world().size()), 0),
                             test::world());
  const TensorSpec spec{Shape{{"row", test::world().size()}, {"column", columns}}, DType::i32};
  Placement rows(1);
  rows[0] = State::split(0);
  std::vector<std::uint32_t> tile(static_cast<std::size_t>(columns));
  const auto value = [](std::int64_t rank, std::size_t i) {
    return static_cast<std::uint32_t>(i * 2654435761U + static_cast<std::size_t>(rank));
  };
  for (std::size_t i = 0; i < tile.size(); ++i) tile[i] = value(test::world().rank(), i);
  io::CheckpointContent content;
  content.tensors = {{"/variables/large", spec, rows, [&](int) { return tile.data(); }}};
  const std::string file = io::save_checkpoint(folder, content, ranks, 0);
  tile.clear();
  tile.shrink_to_fit();

  bool same = false;
  const io::LoadedTensor wanted{"/variables/large", spec, rows, [&](int, const void* data) {
                                  const auto* words = static_cast<const std::uint32_t*>(data);
                                  same = true;
                                  for (std::size_t i = 0; i < static_cast<std::size_t>(columns);
                                       ++i)
                                    same = same && words[i] == value(test::world().rank(), i);
                                }};
  io::load_checkpoint(io::Checkpoint(file), std::span(&wanted, 1), ranks);
  CHECK(test::on_all_ranks(same));
  test::world().barrier();
}

TEST_CASE("a replicated tensor of 2^31 + 16 bytes is broadcast whole") {
  if (test::world().size() == 1) return;
  const test::Scratch own;
  const std::string folder = test::world().broadcast_text(own.path());
  const TensorSpec spec{Shape{{"column", (std::int64_t{1} << 29) + 4}}, DType::f32};
  comm::MpiCollectives ranks(MeshShape::parse(concat("a:", test::world().size()), 0),
                             test::world());
  std::vector<std::uint32_t> tile(static_cast<std::size_t>(spec.shape.size()));
  for (std::size_t i = 0; i < tile.size(); ++i) tile[i] = static_cast<std::uint32_t>(i * 40503U);
  io::CheckpointContent content;
  content.tensors = {{"/variables/large", spec, Placement(1), [&](int) { return tile.data(); }}};
  const std::string file = io::save_checkpoint(folder, content, ranks, 0);
  bool same = false;
  const io::LoadedTensor wanted{"/variables/large", spec, Placement(1), [&](int, const void* data) {
                                  same = std::memcmp(data, tile.data(), tile.size() * 4) == 0;
                                }};
  io::load_checkpoint(io::Checkpoint(file), std::span(&wanted, 1), ranks);
  CHECK(test::on_all_ranks(same));
  test::world().barrier();
}
