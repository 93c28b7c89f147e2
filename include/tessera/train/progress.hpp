// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <utility>
#include <vector>

namespace tessera::train {

/// Numbers that a model adds to those of every model (replicate::add_metric), by name.
using Metrics = std::vector<std::pair<std::string, double>>;

/// A result that a step function names (replicate::ReplicaContext::result).
struct StepResult {
  std::string name;
  bool is_per_replica = false;
  std::vector<double> values;  ///< one, or one of each replica
};

/// What one optimizer step did.
struct StepRecord {
  std::int64_t step = 0;
  std::int64_t epoch = 0;
  double loss = 0;
  double grad_norm = 0;
  double lr = 0;
  Metrics metrics;
  std::vector<StepResult> results;
  std::string unit = "tokens";  ///< what targets are
  std::int64_t targets = 0;     ///< that counted since the start of training
  std::int64_t group = -1;      ///< asynchronous: of workers that pushed it
  std::int64_t staleness = -1;  ///< updates since they pulled the weights
  bool skipped = false;         ///< not finite: the weights stayed as they were
  double step_seconds = 0;
  double targets_per_second = 0;
  /// What else was counted since the start of training, and more that depends on time: in
  /// metrics.jsonl alone.
  std::vector<std::pair<std::string, std::int64_t>> counts;
  Metrics rates;

  /// A line of metrics.jsonl. What depends on time stands last, the rest is the same in a repeat.
  std::string to_json() const;
};

/// What an evaluation found.
struct ValidationRecord {
  std::string measure = "loss";  ///< what is judged by: "loss", "reward"
  double value = 0;              ///< of it, a mean over targets; a loss is in nats
  bool is_better_if_larger = false;
  Metrics metrics;
  std::string unit = "tokens";
  std::int64_t targets = 0;  ///< that counted

  /// The smaller, the better.
  double score() const { return is_better_if_larger ? -value : value; }
  /// The line of an evaluation in metrics.jsonl.
  std::string to_json(std::int64_t step, double seconds) const;
  /// "validation loss 2.1  accuracy 0.4 over 1,024 tokens".
  std::string to_string() const;
};

/// "3 h 12 min", "4 min 10 s", "9 s".
std::string format_time(double seconds);

/// "4.90 G": operations, with the letters of units.
std::string format_operations(double count);

/// Shows how far a run is: on a terminal one line that is written over, else plain lines, one for
/// the first step, the last one, and whenever `interval` seconds have passed.
class Progress {
 public:
  Progress(std::ostream& out, bool is_terminal, std::int64_t first_step, std::int64_t steps,
           double interval, double flops_per_step);

  void show(const StepRecord& record);
  /// A line of its own: a warning, an evaluation, a checkpoint.
  void say(const std::string& line);
  /// Ends the line that is written over.
  void finish();

 private:
  std::string line_of(const StepRecord& record);

  std::ostream& out_;
  bool is_terminal_;
  std::int64_t first_step_;
  std::int64_t steps_;
  double interval_;
  double flops_per_step_;
  double last_shown_ = -1e9;
  double mean_seconds_ = 0;  // of a step, recent ones count more
  std::size_t width_ = 0;    // of what stands on the terminal's line
};

}  // namespace tessera::train
