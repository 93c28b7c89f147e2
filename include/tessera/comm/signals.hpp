// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <csignal>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::comm {

/// Signal numbers of "USR1,TERM" (names with or without SIG; numbers too); UserError that begins
/// with `key` for a name that is none or a signal that can't be caught. "" gives none.
std::vector<int> parse_signals(const std::string& key, std::string_view text);
/// "SIGUSR1".
std::string signal_name(int signal);

/// While it lives, the signals that ask a run to stop only leave a mark, which the loop looks at.
/// The handlers do nothing else, so they are safe at any moment. An object within another one's
/// life has the say: what it does not name is no stop signal meanwhile.
class StopSignals {
 public:
  explicit StopSignals(const std::vector<int>& signals);
  /// Restores the handlers that were there before.
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

 private:
  struct Previous;
  std::vector<Previous> previous_;
};

/// While it lives, a signal does nothing, unless it is a stop signal by then.
class IgnoredSignal {
 public:
  explicit IgnoredSignal(const std::string& name);
  ~IgnoredSignal();
  IgnoredSignal(const IgnoredSignal&) = delete;
  IgnoredSignal& operator=(const IgnoredSignal&) = delete;

 private:
  int signal_;
  void (*previous_)(int) = nullptr;
};

/// The last stop signal that came, 0 if none did since the last clear.
int pending_signal();
void clear_pending_signal();

}  // namespace tessera::comm
