// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <string>
#include <vector>

#include "tessera/train/wall_clock.hpp"

namespace tessera::train {

/// Why a run stops before its last step; stronger reasons have higher numbers.
enum class Stop : int { none = 0, file = 1, walltime = 2, signal = 3 };

/// "the stop file", "the wall time", "a signal".
const char* name_of(Stop stop);

/// Exit codes of the executable.
enum ExitCode : int { kDone = 0, kFailure = 1, kBadInput = 2, kResumeMe = 85 };

/// What this process alone sees of the reasons to stop. It becomes a Stop only when all ranks have
/// summed their votes, so all stop at the same step.
class StopWatch {
 public:
  static constexpr std::size_t kVotes = 3;

  /// `is_root`: this process judges wall time and stop file.
  StopWatch(bool is_root, WallClock clock, std::string stop_file);

  WallClock& clock() { return clock_; }
  /// A process whose votes are not summed with this one's got a stop signal.
  void note_signal() { signalled_ = true; }
  /// 1 or 0 for each reason: file, walltime, signal.
  std::array<double, kVotes> votes() const;
  /// The strongest reason in votes that were summed over ranks.
  static Stop decide(const double* summed_votes);
  /// Deletes the stop file, so that the next run is not stopped by it.
  void consume_file() const;

 private:
  bool is_root_;
  WallClock clock_;
  std::string stop_file_;
  bool signalled_ = false;
};

}  // namespace tessera::train
