// SPDX-License-Identifier: BSD-3-Clause
#include "mpi_calls.hpp"

#include "tessera/comm/mpi_error.hpp"

namespace tessera::comm {

/// What comes after the calls that have ended; false if nothing does.
bool Calls::go_on() {
  requests_.clear();
  if (next_ == parts_.size()) return false;
  if (parts_[next_].work) {
    parts_[next_++].work();
    return true;
  }
  do {
    parts_[next_++].call(requests_.emplace_back(MPI_REQUEST_NULL));
  } while (together_ && next_ < parts_.size() && parts_[next_].call);
  return true;
}

bool Calls::test() {
  do {
    int done = 1;
    if (!requests_.empty())
      TESSERA_MPI(MPI_Testall, static_cast<int>(requests_.size()), requests_.data(), &done,
                  MPI_STATUSES_IGNORE);
    if (!done) return false;
  } while (go_on());
  return true;
}

void Calls::wait(const Waiter& waiter) {
  do {
    if (!requests_.empty()) waiter.wait_all(requests_);
  } while (go_on());
}

}  // namespace tessera::comm
