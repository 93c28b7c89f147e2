// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <mpi.h>

#include <functional>
#include <utility>
#include <vector>

#include "tessera/comm/waiter.hpp"

namespace tessera::comm {

/// What a collective asks of MPI: nonblocking calls, each begun when the one before has ended, and
/// work of the host in between. Waited for at once, or looked after from time to time. To be moved
/// only before the first test or wait: MPI reads counts where the calls hold them.
class Calls {
 public:
  using Begin = std::function<void(MPI_Request& request)>;

  /// A call: `begin` starts it. What it holds lives until the end of the last call.
  void call(Begin begin) { begins_.push_back(std::move(begin)); }
  /// Work of the host.
  void then(std::function<void()> work) {
    begins_.emplace_back([work = std::move(work)](MPI_Request&) { work(); });
  }

  /// Goes on as far as that needs no waiting; true once all is done.
  bool test();
  void wait(const Waiter& waiter);

 private:
  bool begin_next();

  std::vector<Begin> begins_;
  std::size_t next_ = 0;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

}  // namespace tessera::comm
