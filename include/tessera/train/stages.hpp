// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tessera/replicate/task.hpp"

namespace tessera::train {

/// One of the pushes that a worker's step consists of: a run of a phase.
struct Stage {
  std::size_t phase = 0;   ///< index in Task::phases
  std::int64_t run = 0;    ///< of the phase in the step
  std::int64_t batch = 0;  ///< that it takes, of the step's batches
};

/// What travels between servers and workers for one phase: names of variables.
struct Traffic {
  std::vector<std::string> pulled;     ///< what its micro-batches read or assign
  std::vector<std::string> gradients;  ///< pushed
  std::vector<std::string> states;     ///< pushed as changes: running statistics and the like
};

/// Names of the states that a phase's micro-batches move.
std::vector<std::string> moved_states(const replicate::Task& task, const replicate::Phase& phase);

/// A Task's step as workers do it.
struct Stages {
  std::vector<Stage> order;
  std::int64_t batches = 0;      ///< of a step
  std::vector<Traffic> traffic;  ///< by phase; the last one is of evaluations, which push nothing

  explicit Stages(const replicate::Task& task);
  std::size_t evaluation() const { return traffic.size() - 1; }
  std::int64_t pushes() const { return static_cast<std::int64_t>(order.size()); }
  /// Index among a worker's batches of the one that its push number `sequence` takes.
  std::int64_t batch_of(std::int64_t sequence) const;
  /// Batches that a worker has begun after so many pushes.
  std::int64_t batches_after(std::int64_t pushes) const;
  /// Runs of a phase in so many pushes of a worker.
  std::int64_t runs_in(std::int64_t pushes, std::size_t phase) const;
};

}  // namespace tessera::train
