// SPDX-License-Identifier: BSD-3-Clause
#include "mpi_calls.hpp"

#include "tessera/comm/mpi_error.hpp"

namespace tessera::comm {

bool Calls::begin_next() {
  if (next_ == begins_.size()) return false;
  begins_[next_++](request_);
  return true;
}

bool Calls::test() {
  do {
    if (request_ == MPI_REQUEST_NULL) continue;
    int done = 0;
    TESSERA_MPI(MPI_Test, &request_, &done, MPI_STATUS_IGNORE);
    if (!done) return false;
  } while (begin_next());
  return true;
}

void Calls::wait(const Waiter& waiter) {
  do {
    if (request_ != MPI_REQUEST_NULL) waiter.wait(request_);
  } while (begin_next());
}

}  // namespace tessera::comm
