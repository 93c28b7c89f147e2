// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/comm/collectives.hpp"
#include "tessera/comm/environment.hpp"
#include "tessera/comm/mailbox.hpp"
#include "tessera/comm/world.hpp"
#include "tessera/device/exec.hpp"
#include "tessera/train/config.hpp"

namespace tessera::train {

/// Where a run's ranks are: one for each process under MPI, or all of them in this process.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual const comm::World& world() const = 0;
  virtual std::int64_t ranks() const = 0;
  /// Ranks [first, first + count) of the job share this process's node.
  struct NodeRanks {
    std::int64_t first = 0;
    std::int64_t count = 1;
  };
  virtual NodeRanks node_ranks() const = 0;
  int ranks_on_node() const { return static_cast<int>(node_ranks().count); }
  /// "MPICH 4.0.2", "simulated".
  virtual std::string library() const = 0;
  /// Collectives over a mesh of all ranks; `exec` is where kernels run.
  virtual std::unique_ptr<comm::Collectives> make_collectives(const MeshShape& mesh,
                                                              const NumericsConfig& config,
                                                              const device::Exec& exec) = 0;
  /// What the header says of nodes, cores and memory, and what is wrong with them. Collective.
  struct Notes {
    std::vector<std::string> lines;
    std::vector<std::string> warnings;
  };
  virtual Notes notes(const comm::Collectives& collectives) = 0;

  /// The ranks [first, first + count), some of which are this process's, as a Backend of their own.
  /// Each process calls it, for its own part; a process that holds all ranks once for each part.
  virtual std::unique_ptr<Backend> part(std::int64_t first, std::int64_t count) const = 0;
  virtual bool has_rank(std::int64_t rank) const = 0;
  /// Messages between all ranks. Collective.
  virtual std::unique_ptr<comm::Mailbox> make_mailbox() const = 0;

  /// This process holds rank 0: it prints and writes files.
  bool is_root() const { return world().rank() == 0; }
};

/// The ranks of MPI.
std::unique_ptr<Backend> mpi_backend(const comm::Environment& environment);
/// All ranks in this process, in lock-step.
std::unique_ptr<Backend> simulated_backend(std::int64_t ranks);

}  // namespace tessera::train
