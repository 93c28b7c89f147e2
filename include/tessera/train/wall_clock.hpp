// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

namespace tessera::train {

/// Says when a run must stop to be saved before its time is up: the deck's run.walltime, counted
/// from the process's start, or the end of the Slurm job (SLURM_JOB_END_TIME), whichever is first.
/// Only rank 0's clock is asked.
class WallClock {
 public:
  /// `walltime` in seconds, 0: none. `job_end` seconds since 1970 (0: none).
  WallClock(double walltime, double job_end);
  /// From run.walltime and the environment.
  static WallClock from_environment(const std::string& walltime);

  bool has_limit() const { return limit_ < kNever; }
  /// Seconds since the start.
  double elapsed() const;
  /// Seconds that are left; huge if there is no limit.
  double remaining() const { return limit_ - elapsed(); }

  /// What a save took, or is expected to take before the first one.
  void set_save_seconds(double seconds) { save_seconds_ = seconds; }
  void add_step_seconds(double seconds);
  /// True if another step might not leave the time to save: less is left than two saves and two of
  /// the slowest steps.
  bool is_due() const;

 private:
  static constexpr double kNever = 1e15;
  double start_;  // of a steady clock
  double limit_ = kNever;
  double save_seconds_ = 1;
  double slowest_step_ = 0;
};

/// Seconds of a steady clock since the process started.
double seconds_since_start();

}  // namespace tessera::train
