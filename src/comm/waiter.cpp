// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/comm/waiter.hpp"

#include <sched.h>
#include <time.h>

#include "tessera/comm/mpi_error.hpp"
#include "tessera/comm/while_waiting.hpp"

namespace tessera::comm {
namespace {

// With a core for each rank a peer is late by its share of imbalance, mostly well below a
// millisecond of tests; after that give way to whatever else runs on the node.
constexpr int kTestsBeforeYield = 2000;
// Without, the peer needs this core. A rank that only yields still takes its share of it under a
// fair scheduler, and gets it back a whole time slice later; sleeping was 4 to 6 times faster on 4
// and 8 ranks of 2 cores.
constexpr int kTestsBeforeSleep = 10;
constexpr long kSleepNanoseconds = 50'000;

}  // namespace

void Waiter::pause() const {
  if (crowded_) {
    const timespec moment{0, kSleepNanoseconds};
    nanosleep(&moment, nullptr);
  } else {
    sched_yield();
  }
}

void Waiter::wait_all(std::span<MPI_Request> requests) const {
  int patience = crowded_ ? kTestsBeforeSleep : kTestsBeforeYield;
  for (;;) {
    int done = 0;
    TESSERA_MPI(MPI_Testall, static_cast<int>(requests.size()), requests.data(), &done,
                MPI_STATUSES_IGNORE);
    if (done) return;
    if (patience > 0) {
      --patience;
      continue;
    }
    still_waiting();
    pause();
  }
}

}  // namespace tessera::comm
