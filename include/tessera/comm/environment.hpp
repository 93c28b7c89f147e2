// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/comm/world.hpp"

namespace tessera::comm {

/// RAII of MPI, one object in main, made before all else. Only the main thread may call MPI
/// (MPI_THREAD_FUNNELED). World's ranks are sorted by (node, rank on the node), so that neighbours
/// in the last dim of a mesh share a node.
class Environment {
 public:
  /// UserError if the launcher started several processes that don't know of each other.
  Environment(int& argc, char**& argv);
  /// Ends MPI. While an exception passes it does not, since the others may wait for this rank.
  ~Environment();
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

  const World& world() const;
  /// The ranks [first, first + count), this one among them. Collective: every rank calls it for
  /// its own part.
  std::unique_ptr<World> part(int first, int count) const;
  int rank() const { return world().rank(); }
  int size() const { return world().size(); }

  int local_rank() const;     ///< among the ranks of this node
  int ranks_on_node() const;  ///< of this node
  int most_ranks_on_node() const;
  int nodes() const;
  const std::string& host() const;
  /// Whether the ranks of this node exceed the cores that they may use.
  bool crowded() const;
  /// "MPICH 4.0.2": for header and provenance.
  const std::string& library() const;

  /// What each rank may run on, and what is wrong with that. Collective; equal on all ranks.
  /// `threads`: how many threads this rank computes with.
  struct CoreReport {
    std::vector<std::string> lines;     ///< "ranks 0-3 on node1: cores 0-3, 1 thread each"
    std::vector<std::string> warnings;  ///< ranks that share cores, more threads than cores
  };
  CoreReport report_cores(int threads) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera::comm
