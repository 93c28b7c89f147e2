// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <mpi.h>

#include <functional>
#include <utility>
#include <vector>

#include "tessera/comm/waiter.hpp"

namespace tessera::comm {

/// What a collective asks of MPI: nonblocking calls and work of the host between them, in order.
/// Waited for at once, or looked after from time to time. To be moved only before the first test or
/// wait: MPI reads counts where the calls hold them.
class Calls {
 public:
  using Begin = std::function<void(MPI_Request& request)>;

  /// `together`: calls with no work between them are begun at once, so that MPI gets on with all of
  /// them whenever it is called; else one after the other, so that each finds its data in a cache.
  explicit Calls(bool together = false) : together_(together) {}

  /// A call: `begin` starts it. What it holds lives until the end of the last call.
  void call(Begin begin) { parts_.push_back({std::move(begin), {}}); }
  /// Work of the host.
  void then(std::function<void()> work) { parts_.push_back({{}, std::move(work)}); }

  /// Goes on as far as that needs no waiting; true once all is done.
  bool test();
  void wait(const Waiter& waiter);

 private:
  struct Part {
    Begin call;  // either this
    std::function<void()> work;
  };
  bool go_on();

  std::vector<Part> parts_;
  std::vector<MPI_Request> requests_;
  std::size_t next_ = 0;
  bool together_;
};

}  // namespace tessera::comm
