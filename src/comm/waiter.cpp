// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/comm/waiter.hpp"

#include <sched.h>
#include <time.h>

#include "tessera/comm/mpi_error.hpp"

namespace tessera::comm {
namespace {

// With a core for each rank a peer is late by its share of imbalance at most, well below a
// millisecond of tests; after that give way to whatever else runs on the node.
constexpr int kTestsBeforeYield = 2000;
// A yielding rank still takes its share of the core under a fair scheduler, so sleep in the end.
constexpr int kYieldsBeforeSleep = 200;
constexpr long kSleepNanoseconds = 50'000;

}  // namespace

void Waiter::wait_all(std::span<MPI_Request> requests) const {
  const int spins = crowded_ ? 0 : kTestsBeforeYield;
  const int yields = spins + kYieldsBeforeSleep;
  for (int idle = 0;; ++idle) {
    int done = 0;
    TESSERA_MPI(MPI_Testall, static_cast<int>(requests.size()), requests.data(), &done,
                MPI_STATUSES_IGNORE);
    if (done) return;
    if (idle < spins) continue;
    if (idle < yields || !crowded_) {
      if (idle >= yields) idle = spins;  // keeps the counter from overflowing
      sched_yield();
    } else {
      idle = yields;
      const timespec pause{0, kSleepNanoseconds};
      nanosleep(&pause, nullptr);
    }
  }
}

}  // namespace tessera::comm
