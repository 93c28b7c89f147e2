// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <map>
#include <vector>

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

/// How payloads are cut into calls, reach memory and are summed. All calls are collective over
/// `group`, whose size is above 1.
struct MpiCollectives::Impl {
  Impl(MeshShape shape, const World& world, const MpiCollectivesOptions& chosen);

  const MpiGroup& group(const MeshDims& dims);
  bool ordered() const { return options.reduce == ReduceMode::ordered; }

  void all_reduce(const MpiGroup& group, ReduceOp op, DType dtype, void* buffer,
                  std::int64_t count);
  void reduce_scatter(const MpiGroup& group, DType dtype, const void* send, void* receive,
                      const Blocks& blocks);
  void all_gather(const MpiGroup& group, DType dtype, const void* send, void* receive,
                  const Blocks& blocks);
  void all_to_all(const MpiGroup& group, DType dtype, const void* send, const Blocks& send_blocks,
                  void* receive, const Blocks& receive_blocks);
  void neighbour_exchange(const MpiGroup& group, DType dtype, const void* send,
                          const Blocks& send_blocks, void* receive, const Blocks& receive_blocks);
  void broadcast(const MpiGroup& group, DType dtype, void* buffer, std::int64_t count);
  /// What remains of a collective in a group of one rank.
  void copy(void* to, const void* from, std::size_t bytes);

  MpiCollectivesOptions options;
  ProcessorMesh mesh;
  std::vector<int> local_ranks;
  bool stage;

 private:
  /// `on_host`: the host itself must touch the data.
  Staging staging(bool on_host) const;
  void ordered_all_reduce(const MpiGroup& group, DType dtype, void* buffer, std::int64_t count);
  void ordered_reduce_scatter(const MpiGroup& group, DType dtype, const void* send,
                              const Blocks& blocks, void* receive);

  Transport transport_;
  std::map<MeshDims, MpiGroup> groups_;
  Scratch input_, output_, partials_;
};

}  // namespace tessera::comm
