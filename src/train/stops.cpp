// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/stops.hpp"

#include <unistd.h>

#include <filesystem>

#include "tessera/comm/signals.hpp"

namespace tessera::train {

const char* name_of(Stop stop) {
  switch (stop) {
    case Stop::file:
      return "the stop file";
    case Stop::walltime:
      return "the wall time";
    case Stop::signal:
      return "a signal";
    default:
      return "nothing";
  }
}

StopWatch::StopWatch(bool is_root, WallClock clock, std::string stop_file)
    : is_root_(is_root), clock_(clock), stop_file_(std::move(stop_file)) {}

std::array<double, StopWatch::kVotes> StopWatch::votes() const {
  std::array<double, kVotes> votes{};
  if (is_root_) {
    votes[0] = ::access(stop_file_.c_str(), F_OK) == 0;
    votes[1] = clock_.is_due();
  }
  votes[2] = signalled_ || comm::pending_signal() != 0;
  return votes;
}

Stop StopWatch::decide(const double* summed_votes) {
  for (int reason = static_cast<int>(kVotes); reason > 0; --reason)
    if (summed_votes[reason - 1] > 0) return static_cast<Stop>(reason);
  return Stop::none;
}

void StopWatch::consume_file() const {
  std::error_code ignored;
  if (is_root_) std::filesystem::remove(stop_file_, ignored);
}

}  // namespace tessera::train
