// SPDX-License-Identifier: BSD-3-Clause
#include "mpi_collectives_impl.hpp"

#include <algorithm>

#include "gpu_aware.hpp"
#include "local_reduce.hpp"
#include "tessera/base/error.hpp"
#include "tessera/shape/tile.hpp"

namespace tessera::comm {
namespace {

constexpr std::int64_t kLargestPiece = std::int64_t{1} << 30;
constexpr std::int64_t kCachedPiece = std::int64_t{2} << 20;
// A sum in rank order holds the pieces of all members at once.
constexpr std::int64_t kOrderedPiece = std::int64_t{16} << 20;
// Flights along the same mesh dims that are under way at once.
constexpr std::size_t kTracks = 4;

const MpiWorld& mpi_world(const World& world) {
  const auto* mpi = dynamic_cast<const MpiWorld*>(&world);
  TESSERA_CHECK(mpi, "MPI collectives need a world made by MPI");
  return *mpi;
}

std::int64_t longest(const Blocks& blocks) {
  return blocks.counts.empty() ? 0 : std::ranges::max(blocks.counts);
}

/// How many elements of each block travel in one call, so that all blocks together are a piece.
std::int64_t share_of(const Blocks& blocks, std::int64_t piece) {
  const auto members = static_cast<std::int64_t>(blocks.counts.size());
  return std::max<std::int64_t>(1, blocks.total() <= piece ? longest(blocks) : piece / members);
}

/// into = the sum of adjacent pieces of `count` elements, in rank order.
void sum_pieces(int pieces, DType dtype, void* into, const void* from, std::int64_t count) {
  copy_bytes(into, from, bytes_for(count, dtype));
  for (int i = 1; i < pieces; ++i)
    combine(ReduceOp::sum, dtype, into, advance(from, i * count, dtype), count);
}

}  // namespace

std::int64_t MpiGroup::piece(DType dtype, std::int64_t limit_bytes) const {
  const auto bytes = static_cast<std::int64_t>(bytes_of(dtype));
  return std::max<std::int64_t>(1, std::min(piece_bytes, limit_bytes) / bytes);
}

MpiCollectives::Impl::Impl(MeshShape shape, const World& world, const MpiCollectivesOptions& chosen)
    : options(chosen),
      mesh(std::move(shape), mpi_world(world)),
      local_ranks{mesh.rank()},
      stage(must_stage(options.gpu_aware, mesh.world(), options.exec)),
      transport_(mesh.world().waiter(), options.largest_offset) {
  TESSERA_CHECK(options.piece_bytes >= 0 && options.piece_bytes <= kLargestPiece,
                "pieces are at most 1 GiB");
}

const MpiGroup& MpiCollectives::Impl::group(const MeshDims& dims) {
  const auto found = groups_.find(dims);
  if (found != groups_.end()) return found->second;
  MpiGroup group;
  group.handle = mesh.along(dims);
  TESSERA_MPI(MPI_Comm_size, group.handle, &group.size);
  int rank = 0;
  TESSERA_MPI(MPI_Comm_rank, group.handle, &rank);
  group.rank = static_cast<std::size_t>(rank);
  // Whether groups cross nodes is asked of all groups along these dims, so all ranks cut alike.
  const bool cached = device::Exec::is_host() && !mesh.crosses_nodes(dims);
  group.piece_bytes = options.piece_bytes > 0 ? options.piece_bytes
                      : cached                ? kCachedPiece
                                              : kLargestPiece;
  return groups_.emplace(dims, group).first->second;
}

Staging MpiCollectives::Impl::staging(bool on_host) const {
  Staging staging(stage || (on_host && !device::Exec::is_host()), options.exec);
  staging.fence();
  return staging;
}

MpiCollectives::Impl::Track& MpiCollectives::Impl::track(const MeshDims& dims) {
  Tracks& tracks = tracks_[dims];
  if (tracks.all.size() < kTracks) {
    auto track = std::make_unique<Track>();
    track->group = group(dims);
    track->communicator =
        Communicator::split(track->group.handle, 0, static_cast<int>(track->group.rank));
    track->group.handle = track->communicator.get();
    tracks.all.push_back(std::move(track));
    return *tracks.all.back();
  }
  Track& track = *tracks.all[tracks.next++ % kTracks];
  if (track.flight != nullptr) track.flight->finish();
  return track;
}

void MpiCollectives::Impl::copy(void* to, const void* from, std::size_t bytes) {
  const Staging through = staging(true);
  const void* host = through.read(blocking.input, from, bytes);
  if (through.on())
    through.put(to, host, bytes);
  else
    copy_bytes(to, host, bytes);
}

void MpiCollectives::Impl::ordered_reduce_scatter(Calls& calls, Lane& lane, const MpiGroup& group,
                                                  DType dtype, const void* send,
                                                  const Blocks& blocks, void* receive) {
  const std::int64_t mine = blocks.counts[group.rank];
  const auto pieces =
      Blocks::adjacent(std::vector<std::int64_t>(static_cast<std::size_t>(group.size), mine));
  void* all = lane.partials.reserve(bytes_for(pieces.total(), dtype));
  transport_.all_to_all(calls, lane.packed, group.handle, dtype, send, blocks, all, pieces);
  calls.then([=, members = group.size] { sum_pieces(members, dtype, receive, all, mine); });
}

void MpiCollectives::Impl::ordered_all_reduce(Calls& calls, Lane& lane, const MpiGroup& group,
                                              DType dtype, void* buffer, std::int64_t count) {
  std::vector<std::int64_t> shares;
  for (int member = 0; member < group.size; ++member)
    shares.push_back(block(count, group.size, member).size());
  const Blocks blocks = Blocks::adjacent(std::move(shares));
  void* mine = advance(buffer, blocks.offsets[group.rank], dtype);
  ordered_reduce_scatter(calls, lane, group, dtype, buffer, blocks, mine);
  transport_.all_gather(calls, lane.packed, group.handle, dtype, nullptr, buffer, blocks, 0);
}

void MpiCollectives::Impl::all_reduce(Calls& calls, Lane& lane, const MpiGroup& group, ReduceOp op,
                                      DType dtype, void* buffer, std::int64_t count) {
  const bool in_order = ordered() && op == ReduceOp::sum;
  const Staging through = staging(in_order);
  const std::size_t bytes = bytes_for(count, dtype);
  through.read(lane.output, buffer, bytes);
  void* host = through.place(lane.output, buffer, bytes);
  const std::int64_t piece = group.piece(dtype, in_order ? kOrderedPiece : kLargestPiece);
  // At least one call: what is empty on these ranks is still a call in plan and ledger.
  for (std::int64_t at = 0; at == 0 || at < count; at += piece) {
    const std::int64_t n = std::min(piece, count - at);
    if (in_order)
      ordered_all_reduce(calls, lane, group, dtype, advance(host, at, dtype), n);
    else
      transport_.all_reduce(calls, group.handle, op, dtype, advance(host, at, dtype), n);
  }
  if (through.on()) calls.then([=] { through.put(buffer, host, bytes); });
}

void MpiCollectives::Impl::reduce_scatter(Calls& calls, Lane& lane, const MpiGroup& group,
                                          DType dtype, const void* send, void* receive,
                                          const Blocks& blocks) {
  const std::int64_t share =
      share_of(blocks, group.piece(dtype, ordered() ? kOrderedPiece : kLargestPiece));
  const bool packed = share < longest(blocks);
  const Staging through = staging(ordered() || packed);
  const std::int64_t mine = blocks.counts[group.rank];
  const void* from = through.read(lane.input, send, bytes_for(blocks.total(), dtype));
  void* into = through.place(lane.output, receive, bytes_for(mine, dtype));
  for (std::int64_t at = 0; at == 0 || at < longest(blocks); at += share) {
    const Blocks part = blocks.part(at, share);
    void* target = advance(into, std::min(at, mine), dtype);
    if (ordered())
      ordered_reduce_scatter(calls, lane, group, dtype, from, part, target);
    else
      transport_.reduce_scatter(calls, lane.packed, group.handle, dtype, from, part, target);
  }
  if (through.on()) calls.then([=] { through.put(receive, into, bytes_for(mine, dtype)); });
}

void MpiCollectives::Impl::all_gather(Calls& calls, Lane& lane, const MpiGroup& group, DType dtype,
                                      const void* send, void* receive, const Blocks& blocks) {
  const std::int64_t share = share_of(blocks, group.piece(dtype, kLargestPiece));
  const Staging through = staging(!transport_.fits(blocks));
  const std::int64_t mine = blocks.counts[group.rank];
  const std::size_t bytes = bytes_for(blocks.total(), dtype);
  const void* from = through.read(lane.input, send, bytes_for(mine, dtype));
  void* into = through.place(lane.output, receive, bytes);
  for (std::int64_t at = 0; at == 0 || at < longest(blocks); at += share) {
    const Blocks part = blocks.part(at, share);
    transport_.all_gather(calls, lane.packed, group.handle, dtype,
                          advance(from, std::min(at, mine), dtype), into, part,
                          part.counts[group.rank]);
  }
  if (through.on()) calls.then([=] { through.put(receive, into, bytes); });
}

void MpiCollectives::Impl::all_to_all(const MpiGroup& group, DType dtype, const void* send,
                                      const Blocks& send_blocks, void* receive,
                                      const Blocks& receive_blocks) {
  // No rank knows the largest count of all pairs. So one call takes up to a fixed share of each
  // pair's block, and what is left travels between the two ranks of the pair alone.
  const std::int64_t limit = options.piece_bytes > 0 ? options.piece_bytes : kLargestPiece;
  const std::int64_t piece =
      std::max<std::int64_t>(1, limit / static_cast<std::int64_t>(bytes_of(dtype)));
  const std::int64_t share = std::max<std::int64_t>(1, piece / group.size);
  const Staging through =
      staging(!transport_.fits(send_blocks) || !transport_.fits(receive_blocks));
  const std::size_t bytes = bytes_for(receive_blocks.total(), dtype);
  const void* from = through.read(blocking.input, send, bytes_for(send_blocks.total(), dtype));
  void* into = through.place(blocking.output, receive, bytes);
  Calls calls;
  transport_.all_to_all(calls, blocking.packed, group.handle, dtype, from,
                        send_blocks.part(0, share), into, receive_blocks.part(0, share));
  calls.wait(waiter());
  transport_.exchange_rest(group.handle, dtype, from, send_blocks, into, receive_blocks, share,
                           piece);
  through.put(receive, into, bytes);
}

void MpiCollectives::Impl::neighbour_exchange(const MpiGroup& group, DType dtype, const void* send,
                                              const Blocks& send_blocks, void* receive,
                                              const Blocks& receive_blocks) {
  const Staging through = staging(false);
  const std::size_t me = group.rank;
  const std::size_t bytes = bytes_for(receive_blocks.total(), dtype);
  const void* from = through.read(blocking.input, send, bytes_for(send_blocks.total(), dtype));
  void* into = through.place(blocking.output, receive, bytes);
  Blocks to_others = send_blocks, from_others = receive_blocks;
  const std::int64_t own = to_others.counts[me];
  to_others.counts[me] = from_others.counts[me] = 0;
  const std::int64_t limit = options.piece_bytes > 0 ? options.piece_bytes : kLargestPiece;
  const auto piece = std::max<std::int64_t>(1, limit / static_cast<std::int64_t>(bytes_of(dtype)));
  transport_.exchange_rest(group.handle, dtype, from, to_others, into, from_others, 0, piece);
  void* own_to = advance(into, receive_blocks.offsets[me], dtype);
  const void* own_from = advance(from, send_blocks.offsets[me], dtype);
  if (through.on())
    copy_bytes(own_to, own_from, bytes_for(own, dtype));
  else if (own > 0)
    copy(own_to, own_from, bytes_for(own, dtype));
  through.put(receive, into, bytes);
}

void MpiCollectives::Impl::broadcast(const MpiGroup& group, DType dtype, void* buffer,
                                     std::int64_t count) {
  const Staging through = staging(false);
  const std::size_t bytes = bytes_for(count, dtype);
  if (group.rank == 0) through.read(blocking.output, buffer, bytes);
  void* host = through.place(blocking.output, buffer, bytes);
  const std::int64_t piece = group.piece(dtype, kLargestPiece);
  Calls calls;
  for (std::int64_t at = 0; at < count; at += piece)
    transport_.broadcast(calls, group.handle, dtype, advance(host, at, dtype),
                         std::min(piece, count - at));
  calls.wait(waiter());
  if (group.rank != 0) through.put(buffer, host, bytes);
}

}  // namespace tessera::comm
