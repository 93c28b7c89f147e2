// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/graph/graph.hpp"
#include "tessera/nn/draw.hpp"
#include "tessera/optim/optim_config.hpp"
#include "tessera/replicate/model.hpp"

namespace tessera::replicate {

/// Sections that draw text.
struct DecodeConfig {
  std::int64_t rows = 0;           ///< texts at a time; 0: no such sections
  std::int64_t length = 0;         ///< positions that are looked back at; 0: TaskConfig::length
  std::int64_t source_length = 0;  ///< of a source; 0: TaskConfig::length
  std::int64_t beam = 0;           ///< hypotheses of each text; 0: one token is drawn
  nn::DrawOptions draw;
};

/// The section `act` of a model that acts.
struct ActConfig {
  std::int64_t environments = 0;  ///< 0: no such section
  std::int64_t runs = 1;          ///< in one step
  Spaces spaces;
};

/// The section that draws samples.
struct DrawConfig {
  std::int64_t rows = 0;   ///< samples of one run; 0: no such section
  std::int64_t total = 0;  ///< of all runs
  std::uint64_t seed = 0;
};

/// Sizes and numbers that a Task needs besides its model.
struct TaskConfig {
  std::int64_t batch = 8;   ///< rows of one step, over all ranks
  std::int64_t length = 0;  ///< tokens of a row
  std::int64_t micro_batches = 1;
  bool last_apart = false;    ///< the last of several micro-batches has a section of its own
  std::int64_t replicas = 1;  ///< of a replicated model
  bool uneven = false;        ///< replicas may have fewer rows than others, padded with weight 0
  bool padded = false;        ///< so may a batch: the last one of an epoch
  DType dtype = DType::f32;
  std::uint64_t seed = 0;
  DecodeConfig decode = {};
  ActConfig act = {};
  DrawConfig draw = {};
  /// Patterns of the regions (Graph::Region) that backward passes compute again; {"*"}: all.
  std::vector<std::string> recompute = {};

  RowShares shares() const { return {batch, micro_batches, replicas}; }
};

/// A phase with the optimizer that it has.
struct PhaseUpdate {
  Phase phase;
  optim::OptimConfig optim;
};

/// How often a section runs in one optimizer step.
struct SectionCount {
  std::string section;
  std::int64_t runs = 1;
};

/// A model with what its training needs: the graphs of its sections over one set of variables.
///   micro       forward and backward of the first micro-batch: gradients are assigned;
///   micro_next  the same, gradients are added (only if micro_batches > 1);
///   micro_last  the same for the last of several micro-batches (only if last_apart), after which
///               gradients are whole if the plan says so;
///   update      clipping, optimizer, moving average;
///   finish      what ends a step besides (Model::finish), if the model has it;
///   eval        forward of one micro-batch without dropout, unless the model acts;
///   act         actions of all environments (only of models that act), before micro;
///   prefill     the beginning of texts in one go, which fills the caches of keys and values;
///   encode      in place of prefill for models with a source: what is kept of it;
///   decode      one more position of each text, by the caches (only if the model can_cache);
///   reorder     caches of hypotheses become those of others (only with decode.beam > 0).
///   draw        new samples (Model::draw), if draw.rows > 0 and the model draws them.
/// A model with several phases has micro, micro_next and update for each: "generator/micro" ….
/// prefill to reorder exist if decode.rows > 0 and the model has logits.
/// Input of act: "observation" [environment, observation]; it leaves its result in the variable
/// "action" [environment, action], where each rank has its environments' actions: nothing travels.
/// Inputs of micro, micro_next, eval: the model's, for batch / micro_batches rows (a replicated
/// model's have the dim `replica` in front and the rows of one replica); of prefill:
/// "tokens" [batch:rows, length]; of encode: the model's source_inputs; of decode: "tokens"
/// [batch:rows, (beam)]; of reorder: "parents" [batch, beam_next], places that the new ones come
/// from. Feeds: "inverse_weight" (1 / global sum of weights of the step) in
/// micro; "lr", "step" (of this update, from 1) in update; "step" in finish; "last", the index of
/// the last known token, in prefill; "position" of the tokens in decode; "first", the number of
/// samples drawn before, in draw; Feeds::step and micro in all. In `update` a gradient that is not
/// finite leaves weights and slots as they were. Fetches:
/// "loss" in micro (already times inverse_weight; partial: sum over ranks) and in eval (sum of
/// weight x loss, partial), and so each metric ("metric/accuracy") where the model adds it;
/// "grad_norm", "finite" (1 or 0) in update (replicated); in prefill and decode "ids" [batch], the
/// drawn tokens, whole on every rank. With a beam prefill fetches nothing and decode fetches
/// "log_probabilities" and "ids" [batch, beam, candidate] of the 2 x beam likeliest tokens; draw
/// fetches the samples' fields by their names.
class Task {
 public:
  Task(Model& model, const optim::OptimConfig& optim, const TaskConfig& config);

  const TaskConfig& config() const { return config_; }
  const optim::OptimConfig& optim() const { return optim_; }
  const std::vector<PhaseUpdate>& phases() const { return phases_; }
  /// The schedules of all phases count on so many steps from now on; no graph depends on it.
  void set_schedule_steps(std::int64_t steps);
  /// The section that is fed first; all others of training have the same inputs.
  std::string first_micro() const { return phases_.front().phase.section("micro"); }
  /// The sections after which nothing is added to a step's gradients any more, if each runs once.
  std::vector<std::string> last_micros() const;
  /// True if each step ends with a section `finish`.
  bool has_finish() const { return has_finish_; }
  Model& model() const { return model_; }
  VariableSet& variables() { return variables_; }
  const VariableSet& variables() const { return variables_; }
  /// Graphs in the order in which sections run.
  std::vector<const Graph*> graphs() const;
  /// Sections of one training step with their counts, for plan.
  std::vector<SectionCount> step_sections() const;

 private:
  bool has_last() const { return config_.last_apart && config_.micro_batches > 1; }
  optim::OptimConfig optim_of(const Phase& phase) const;
  void add_phases();
  void build_phase(const PhaseUpdate& update);
  void build_micro(const PhaseUpdate& update, const std::string& part);
  void check_phases() const;
  void build_finish();
  void build_eval();
  void build_act();
  void build_decoding();
  bool build_encode();
  bool build_prefill();
  void build_decode();
  void build_reorder();
  void build_draw();
  nn::Caching caching(nn::Caching::Phase phase) const;

  Model& model_;
  optim::OptimConfig optim_;
  TaskConfig config_;
  std::vector<PhaseUpdate> phases_;
  bool has_finish_ = false;
  VariableSet variables_;
  std::vector<std::unique_ptr<Graph>> graphs_;
};

}  // namespace tessera::replicate
