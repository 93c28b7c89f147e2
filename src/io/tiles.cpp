// SPDX-License-Identifier: BSD-3-Clause
#include "io/tiles.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"
#include "tessera/shape/runs.hpp"

namespace tessera::io {
namespace {

/// Shorter stretches are cheaper to pick out of one large read than to ask for one by one.
constexpr std::int64_t kShortRun = 4096;
constexpr std::int64_t kWindow = std::int64_t{4} << 20;

}  // namespace

LocalTile local_tile(const Team& team, const TensorSpec& spec, const Placement& placement,
                     int local_rank) {
  TESSERA_CHECK(!placement.has_partial(), "a partial tensor has no tiles to store");
  const Coordinates at = team.coordinates(local_rank);
  LocalTile tile;
  tile.box = tile_box(spec.shape, placement, team.mesh(), at);
  tile.count = volume(tile.box);
  for (int m : placement.replicated_mesh_dims()) {
    if (at[static_cast<std::size_t>(m)] != 0) tile.owner = false;
  }
  return tile;
}

void write_tile(const PosixFile& file, std::int64_t offset, const TensorSpec& spec, const Box& box,
                const void* tile) {
  const auto bytes = static_cast<std::int64_t>(bytes_of(spec.dtype));
  const auto* from = static_cast<const char*>(tile);
  for_each_run(spec.shape, box, [&](const Run& run) {
    file.write(from + run.local * bytes, static_cast<std::size_t>(run.count * bytes),
               offset + run.global * bytes);
  });
}

void read_tile(const PosixFile& file, std::int64_t offset, const TensorSpec& spec, const Box& box,
               void* tile) {
  const auto bytes = static_cast<std::int64_t>(bytes_of(spec.dtype));
  auto* to = static_cast<char*>(tile);
  const std::int64_t total = offset + spec.shape.size() * bytes;
  std::vector<char> window;
  std::int64_t begin = 0;  // of the window in the file
  std::int64_t end = 0;
  for_each_run(spec.shape, box, [&](const Run& run) {
    const std::int64_t first = offset + run.global * bytes;
    const std::int64_t length = run.count * bytes;
    if (length >= kShortRun) {
      file.read(to + run.local * bytes, static_cast<std::size_t>(length), first);
      return;
    }
    if (first + length > end) {  // runs come in rising order
      begin = first;
      end = std::min(total, first + kWindow);
      window.resize(static_cast<std::size_t>(end - begin));
      file.read(window.data(), window.size(), begin);
    }
    std::copy_n(window.data() + (first - begin), length, to + run.local * bytes);
  });
}

TileDigests::TileDigests(const Team& team, std::size_t tensors)
    : team_(team), local_(team.local_ranks().size(), std::vector<Digest>(2 * tensors)) {}

void TileDigests::add(std::size_t tensor, int local_rank, const LocalTile& tile,
                      const TensorSpec& spec, const void* data) {
  const Digest digest = digest_tile(spec.dtype, spec.shape, tile.box, data);
  auto& mine = local_[static_cast<std::size_t>(local_rank)];
  if (tile.owner) mine[2 * tensor] = digest;
  mine[2 * tensor + 1] = digest;
}

void TileDigests::reduce() {
  total_ = team_.sum(local_);
}

bool TileDigests::replicas_agree(std::size_t tensor, std::int64_t replicas) const {
  const Digest& own = total_[2 * tensor];
  const auto n = static_cast<std::uint64_t>(replicas);
  return total_[2 * tensor + 1] == Digest{own.low * n, own.high * n};
}

std::string TileDigests::name_differing_ranks(std::size_t tensor, const TensorSpec& spec,
                                              const Placement& placement) const {
  std::vector<std::vector<Digest>> mine;
  for (const auto& of_rank : local_) mine.push_back({of_rank[2 * tensor + 1]});
  const auto all = team_.gather(mine);
  std::vector<int> differing;
  std::string owners;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    Coordinates at = team_.mesh().coordinates(static_cast<std::int64_t>(rank));
    for (int m : placement.replicated_mesh_dims()) at[static_cast<std::size_t>(m)] = 0;
    const auto owner = team_.mesh().rank_of(at);
    if (all[rank] == all[static_cast<std::size_t>(owner)]) continue;
    differing.push_back(static_cast<int>(rank));
    if (owners.empty()) owners = concat("rank ", rank, " from rank ", owner);
  }
  return concat(spec.shape.to_string(), ": ranks ", comm::format_ranks(differing), " (", owners,
                ")");
}

}  // namespace tessera::io
