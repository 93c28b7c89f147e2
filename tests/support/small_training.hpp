// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "support/simulated_run.hpp"
#include "tessera/models/transformer.hpp"
#include "tessera/plan/planner.hpp"
#include "tessera/replicate/task.hpp"

namespace tessera::test {

/// A small model, if not said otherwise a Transformer with sizes that divide by nothing and dropout
/// on, and its training.
class SmallTraining {
 public:
  static constexpr std::int64_t kBatch = 6, kLength = 5;

  explicit SmallTraining(DType dtype, std::int64_t vocab = 11,
                         std::vector<std::string> recompute = {})
      : SmallTraining(dtype, config(vocab), std::move(recompute)) {}
  /// With `last_apart` the last of several micro-batches has a section of its own.
  SmallTraining(DType dtype, const models::TransformerConfig& config,
                std::vector<std::string> recompute = {}, std::int64_t micro_batches = 1,
                bool last_apart = false);
  /// `task` says all but length and seed.
  SmallTraining(const models::TransformerConfig& config, const optim::OptimConfig& optim,
                replicate::TaskConfig task);
  /// Any model of the default inputs; it says how many tokens there are.
  SmallTraining(std::unique_ptr<replicate::Model> model, const optim::OptimConfig& optim,
                replicate::TaskConfig task);
  static models::TransformerConfig config(std::int64_t vocab);

  const replicate::Task& task() const { return *task_; }
  program::Program compile(const std::string& mesh, const std::string& rules,
                           const std::string& shard = "", const std::string& store = "") const;
  program::Program compile(const plan::PlanOptions& options) const;
  static plan::PlanOptions options(const std::string& mesh, const std::string& rules,
                                   const std::string& shard = "", const std::string& store = "");
  /// Steps 1 … `steps`: this process's share of the losses (to be summed over processes), then of
  /// the gradient norms' (whole on every rank), alternating. All must be finite.
  std::vector<double> run(runtime::Executor& executor, int steps) const;

 private:
  std::unique_ptr<replicate::Model> model_;
  std::unique_ptr<replicate::Task> task_;
};

}  // namespace tessera::test
