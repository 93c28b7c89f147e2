// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <mpi.h>

#include <span>

namespace tessera::comm {

/// Waits for nonblocking calls. MPI's own waits spin: once the ranks of a node exceed its cores a
/// waiting rank would keep the core from the rank it waits for. So wait by testing, and give the
/// core away between tests: by moments of sleep where cores are short, by yielding elsewhere.
class Waiter {
 public:
  /// `crowded`: more ranks on this node than cores.
  explicit Waiter(bool crowded) : crowded_(crowded) {}

  bool crowded() const { return crowded_; }
  /// Gives the core away for a moment.
  void pause() const;
  void wait(MPI_Request& request) const { wait_all({&request, 1}); }
  void wait_all(std::span<MPI_Request> requests) const;

 private:
  bool crowded_;
};

}  // namespace tessera::comm
