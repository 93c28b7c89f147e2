// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <exception>
#include <string>
#include <utility>

namespace tessera {

/// Outcome of a phase that may fail on one rank alone; comm::agree makes it the same on all ranks.
struct Status {
  enum class Kind : int { ok = 0, user_error = 1, error = 2 };
  Kind kind = Kind::ok;
  std::string message;

  bool ok() const { return kind == Kind::ok; }
};

/// Runs `phase` and turns an exception into a Status.
template <class Phase>
Status attempt(Phase&& phase);

/// The Status of an exception: UserError, or anything else.
Status status_of(std::exception_ptr exception);
/// Throws UserError or Error if the status is not ok.
void throw_unless_ok(const Status& status);

template <class Phase>
Status attempt(Phase&& phase) {
  try {
    std::forward<Phase>(phase)();
    return {};
  } catch (...) {
    return status_of(std::current_exception());
  }
}

}  // namespace tessera
