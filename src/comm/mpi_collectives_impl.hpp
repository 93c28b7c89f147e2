// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "mpi_calls.hpp"
#include "mpi_transport.hpp"
#include "staging.hpp"
#include "tessera/comm/mpi_collectives.hpp"
#include "tessera/comm/processor_mesh.hpp"

namespace tessera::comm {

/// The ranks along some mesh dims, seen from this rank.
struct MpiGroup {
  MPI_Comm handle = MPI_COMM_NULL;
  int size = 1;
  std::size_t rank = 0;
  std::int64_t piece_bytes = 0;

  /// Elements that one call may carry, at least 1.
  std::int64_t piece(DType dtype, std::int64_t limit_bytes) const;
};

/// Host memory of one collective at a time, kept for the next.
struct Lane {
  Scratch input, output, partials;
  PackedBlocks packed;
};

class MpiFlight;

/// How payloads are cut into calls, reach memory and are summed. All calls are collective over
/// `group`, whose size is above 1.
struct MpiCollectives::Impl {
  Impl(MeshShape shape, const World& world, const MpiCollectivesOptions& chosen);

  const MpiGroup& group(const MeshDims& dims);
  bool ordered() const { return options.reduce == ReduceMode::ordered; }
  const Waiter& waiter() const { return transport_.waiter(); }

  // These add the calls by which it is done.
  void all_reduce(Calls& calls, Lane& lane, const MpiGroup& group, ReduceOp op, DType dtype,
                  void* buffer, std::int64_t count);
  void reduce_scatter(Calls& calls, Lane& lane, const MpiGroup& group, DType dtype,
                      const void* send, void* receive, const Blocks& blocks);
  void all_gather(Calls& calls, Lane& lane, const MpiGroup& group, DType dtype, const void* send,
                  void* receive, const Blocks& blocks);

  void all_to_all(const MpiGroup& group, DType dtype, const void* send, const Blocks& send_blocks,
                  void* receive, const Blocks& receive_blocks);
  void neighbour_exchange(const MpiGroup& group, DType dtype, const void* send,
                          const Blocks& send_blocks, void* receive, const Blocks& receive_blocks);
  void broadcast(const MpiGroup& group, DType dtype, void* buffer, std::int64_t count);
  /// What remains of a collective in a group of one rank.
  void copy(void* to, const void* from, std::size_t bytes);

  /// A track for flights: ranks and memory of its own, so that what travels there is mixed up with
  /// nothing else, whenever a rank gets to its next call.
  struct Track {
    Communicator communicator;
    MpiGroup group;
    Lane lane;
    MpiFlight* flight = nullptr;
  };
  /// The next track along these mesh dims, free: a flight that is still there is waited for.
  Track& track(const MeshDims& dims);

  MpiCollectivesOptions options;
  ProcessorMesh mesh;
  std::vector<int> local_ranks;
  bool stage;
  Lane blocking;  ///< for what is waited for at once

 private:
  /// `on_host`: the host itself must touch the data.
  Staging staging(bool on_host) const;
  void ordered_all_reduce(Calls& calls, Lane& lane, const MpiGroup& group, DType dtype,
                          void* buffer, std::int64_t count);
  void ordered_reduce_scatter(Calls& calls, Lane& lane, const MpiGroup& group, DType dtype,
                              const void* send, const Blocks& blocks, void* receive);

  struct Tracks {
    std::vector<std::unique_ptr<Track>> all;
    std::size_t next = 0;
  };

  Transport transport_;
  std::map<MeshDims, MpiGroup> groups_;
  std::map<MeshDims, Tracks> tracks_;
};

/// A collective under way on a track.
class MpiFlight final : public Flight {
 public:
  MpiFlight(MpiCollectives::Impl::Track& track, const Waiter& waiter)
      : track_(track), waiter_(waiter) {
    track_.flight = this;
  }
  ~MpiFlight() override {
    if (track_.flight == this) track_.flight = nullptr;
  }
  Calls& calls() { return calls_; }
  bool test() override { return calls_.test(); }
  void finish() override { calls_.wait(waiter_); }

 private:
  MpiCollectives::Impl::Track& track_;
  Waiter waiter_;
  Calls calls_{true};
};

}  // namespace tessera::comm
