// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>
#include <string>

#include "tessera/io/metrics.hpp"
#include "tessera/io/run_folder.hpp"
#include "tessera/train/progress.hpp"
#include "tessera/train/session.hpp"

namespace tessera::train {

/// What a run writes while it goes on: progress lines and metrics.jsonl, on the process that has
/// the run's folder; nothing elsewhere.
class RunLog {
 public:
  /// `folder` may be null. Collective.
  RunLog(const Session& session, io::RunFolder* folder, std::int64_t first_step,
         double flops_per_step);

  void record(const StepRecord& record);
  /// A validation behind step `step`, which took so long.
  void record(const ValidationRecord& record, std::int64_t step, double seconds);
  /// A line of its own in metrics.jsonl.
  void append(const std::string& json);
  void say(const std::string& line);
  /// Looks from time to time whether the folder is still ours; Error if not. `now` in seconds.
  void check_lock(double now);
  /// Ends the progress line.
  void finish();

 private:
  io::RunFolder* folder_;
  Progress progress_;
  std::optional<io::MetricsFile> metrics_;
  double last_look_ = 0;
};

}  // namespace tessera::train
