// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/wall_clock.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "tessera/train/config.hpp"

namespace tessera::train {

static double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Taken when the program is loaded: start-up counts, too.
static const double kStart = steady_seconds();

double seconds_since_start() {
  return steady_seconds() - kStart;
}

WallClock::WallClock(double walltime, double job_end) : start_(kStart) {
  if (walltime > 0) limit_ = walltime;
  if (job_end > 0) {
    const double now =
        std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
    // Slurm ends a job with SIGTERM some seconds early; leave it those.
    constexpr double kReserve = 5;
    limit_ = std::min(limit_, elapsed() + job_end - now - kReserve);
  }
}

WallClock WallClock::from_environment(const std::string& walltime) {
  const char* end = std::getenv("SLURM_JOB_END_TIME");
  return WallClock(walltime.empty() ? 0 : parse_duration("run.walltime", walltime),
                   end ? std::atof(end) : 0);
}

double WallClock::elapsed() const {
  return steady_seconds() - start_;
}

void WallClock::add_step_seconds(double seconds) {
  slowest_step_ = std::max(slowest_step_, seconds);
}

bool WallClock::is_due() const {
  return has_limit() && remaining() < 2 * save_seconds_ + 2 * slowest_step_;
}

}  // namespace tessera::train
