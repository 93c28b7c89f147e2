// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/graph/graph.hpp"
#include "tessera/optim/optim_config.hpp"
#include "tessera/replicate/model.hpp"

namespace tessera::replicate {

/// Sizes and numbers that a Task needs besides its model.
struct TaskConfig {
  std::int64_t batch = 8;   ///< rows of one step, over all ranks
  std::int64_t length = 0;  ///< tokens of a row
  std::int64_t micro_batches = 1;
  DType dtype = DType::f32;
  std::uint64_t seed = 0;
};

/// How often a section runs in one optimizer step.
struct SectionCount {
  std::string section;
  std::int64_t runs = 1;
};

/// A model with what its training needs: the graphs of its sections over one set of variables.
///   micro       forward and backward of the first micro-batch: gradients are assigned;
///   micro_next  the same, gradients are added (only if micro_batches > 1);
///   update      clipping, optimizer, moving average;
///   eval        forward of one micro-batch without dropout;
///   sample      logits at feed "position" of one row (only if the model can sample).
/// Inputs of micro, micro_next, eval: the model's, for batch / micro_batches rows; of sample:
/// "tokens" [batch:1, length]. Feeds: "inverse_weight" (1 / global sum of weights of the step) in
/// micro; "lr", "step" (from 1) in update; "position" in sample; Feeds::step and micro in all.
/// In `update` a gradient that is not finite leaves weights and slots as they were.
/// Fetches: "loss" in micro (already times inverse_weight; partial: sum over ranks) and in eval
/// (sum of weight x loss, partial), and so each metric ("metric/accuracy") where the model adds it;
/// "grad_norm", "finite" (1 or 0) in update (replicated); "logits" [vocab], whole on every rank, in
/// sample.
class Task {
 public:
  Task(Model& model, const optim::OptimConfig& optim, const TaskConfig& config);

  const TaskConfig& config() const { return config_; }
  const optim::OptimConfig& optim() const { return optim_; }
  Model& model() const { return model_; }
  VariableSet& variables() { return variables_; }
  const VariableSet& variables() const { return variables_; }
  /// Graphs in the order in which sections run.
  std::vector<const Graph*> graphs() const;
  /// Sections of one training step with their counts, for plan.
  std::vector<SectionCount> step_sections() const;

 private:
  void build_micro(const std::string& section, bool first);
  void build_update();
  void build_eval();
  void build_sample();

  Model& model_;
  optim::OptimConfig optim_;
  TaskConfig config_;
  VariableSet variables_;
  std::vector<std::unique_ptr<Graph>> graphs_;
};

}  // namespace tessera::replicate
