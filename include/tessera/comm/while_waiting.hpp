// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>

namespace tessera::comm {

/// While it lives, `call` is called from time to time wherever this process waits for other ranks
/// in MPI: a chance to show that it lives, and to hear that a rank it waits for is lost. `call`
/// must not wait itself, nor throw: the memory that MPI works on must stay. At most one lives.
class WhileWaiting {
 public:
  WhileWaiting(double seconds, std::function<void()> call);
  ~WhileWaiting();
  WhileWaiting(const WhileWaiting&) = delete;
  WhileWaiting& operator=(const WhileWaiting&) = delete;
};

/// Who waits calls it between two looks.
void still_waiting();

}  // namespace tessera::comm
