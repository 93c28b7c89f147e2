// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <vector>

#include "mpi_calls.hpp"
#include "mpi_types.hpp"
#include "staging.hpp"
#include "tessera/comm/communicator.hpp"
#include "tessera/comm/waiter.hpp"

namespace tessera::comm {

/// One block of elements for each member of a group, by their places in a buffer.
struct Blocks {
  std::vector<std::int64_t> counts;
  std::vector<std::int64_t> offsets;

  /// Blocks one after the other.
  static Blocks adjacent(std::vector<std::int64_t> counts);
  /// The part [begin, begin + length) of each block, as far as the block goes.
  Blocks part(std::int64_t begin, std::int64_t length) const;
  std::int64_t total() const;
};

/// Host memory for blocks that MPI can't be given as they lie.
struct PackedBlocks {
  Scratch send, receive;
};

/// How MPI is called: nonblocking, each call within MPI's int counts and offsets. Adds to `calls`
/// what a collective needs; calls that use the same `packed` must follow each other. Pointers are
/// whatever MPI can read. Calls are as large as the caller makes them.
class Transport {
 public:
  Transport(Waiter waiter, std::int64_t largest_offset)
      : waiter_(waiter), largest_offset_(largest_offset) {}

  const Waiter& waiter() const { return waiter_; }
  /// Whether MPI can be given offsets into a buffer of these blocks. Otherwise they are packed, by
  /// the host.
  bool fits(const Blocks& blocks) const;

  /// In place.
  void all_reduce(Calls& calls, MPI_Comm group, program::ReduceOp op, DType dtype, void* buffer,
                  std::int64_t count);
  /// Sum of everybody's block for this rank. The blocks are sent from where they stand, packed
  /// first if they are not adjacent.
  void reduce_scatter(Calls& calls, PackedBlocks& packed, MPI_Comm group, DType dtype,
                      const void* send, const Blocks& blocks, void* receive);
  /// Everybody's block to `blocks` of `receive`. `send` null: it is in its place already.
  void all_gather(Calls& calls, PackedBlocks& packed, MPI_Comm group, DType dtype, const void* send,
                  void* receive, const Blocks& blocks, std::int64_t mine);
  void all_to_all(Calls& calls, PackedBlocks& packed, MPI_Comm group, DType dtype, const void* send,
                  const Blocks& send_blocks, void* receive, const Blocks& receive_blocks);
  /// Each block beyond the first `done` elements (which all_to_all may have brought), in messages
  /// of at most `piece` elements between the two ranks of each pair that has any. Waits for them.
  void exchange_rest(MPI_Comm group, DType dtype, const void* send, const Blocks& send_blocks,
                     void* receive, const Blocks& receive_blocks, std::int64_t done,
                     std::int64_t piece);
  void broadcast(Calls& calls, MPI_Comm group, DType dtype, void* buffer, std::int64_t count);

 private:
  Waiter waiter_;
  std::int64_t largest_offset_;
  ReduceOps ops_;
};

}  // namespace tessera::comm
