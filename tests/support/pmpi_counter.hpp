// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace tessera::test {

/// Counts what a program asks of MPI, between the program and the library (PMPI), knowing nothing
/// of plan or ledger. Link tests/support/pmpi_counter.cpp into the test.
struct MpiCalls {
  std::int64_t calls = 0;
  std::int64_t bytes = 0;  ///< of this rank's payload: sent; all_gather: received
  bool operator==(const MpiCalls&) const = default;
};

/// By ("all_reduce" | "reduce_scatter" | "all_gather" | "all_to_all" | "broadcast" | "send",
/// size of the communicator). Blocking and nonblocking calls count alike. World's services use
/// MPI_Iallgather, which is not counted, so that what is counted is a Program's payload.
using MpiCounts = std::map<std::pair<std::string, int>, MpiCalls>;

void start_counting();
/// Stops, and gives what came since start_counting().
MpiCounts stop_counting();

/// Communicators that were made and not yet freed, counted from the start of the program.
int live_communicators();

}  // namespace tessera::test
