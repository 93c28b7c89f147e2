// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tessera/replicate/model.hpp"
#include "tessera/replicate/replica_context.hpp"

namespace tessera::replicate {

/// What a step function's loss is.
enum class LossKind : std::uint8_t {
  sum,   ///< the sum over its samples of weight x loss
  mean,  ///< their mean: replicas then count by their sum of weights (input "weights")
};

/// A model written as the step of one replica (TF-Replicator's step function). It is called once,
/// for all replicas, on inputs [replica, batch, dims…]; operations that name the dims they work on
/// keep `replica`, so the values of replicas stay apart until a primitive of the context joins
/// them.
class ReplicatedModel : public Model {
 public:
  bool is_replicated() const final { return true; }
  Tensor loss(Graph& graph, const Batch& batch) final;

 protected:
  /// The loss of each replica, [replica], or already of all of them together, a scalar. Gradients
  /// are of the sum over replicas, and the update is made once, of weights that all replicas share:
  /// a variable with the dim `replica` is a UserError.
  virtual Tensor step(const ReplicaContext& context, const Batch& batch) = 0;
  virtual LossKind loss_kind() const { return LossKind::sum; }
};

using StepFunction = std::function<Tensor(const ReplicaContext& context, const Batch& batch)>;

/// A step function with the optimizer that its gradients go to.
struct OptimizedStep {
  Phase phase;
  StepFunction function;
};
/// The optimizer of the deck, changed as `phase` says, as one that sums gradients over all replicas
/// before it updates: the weights that the phase names, once for all replicas.
OptimizedStep wrap_optimizer(Phase phase, StepFunction step);

struct ReplicatorOptions {
  /// Inputs of one sample: names, dims without `batch`, dtypes. "weights" [] f32 is among them
  /// where they do not name it: 0 for rows that only fill up a batch.
  std::function<std::vector<InputSpec>()> inputs;
  LossKind loss = LossKind::sum;
  /// Registers deck keys of one's own with fields that outlive the model; may be empty.
  std::function<void(config::Schema&)> describe;
  InputMode input_mode = InputMode::per_replica;
  /// Devices that a replica's step may name (ReplicaContext::logical_device).
  std::int64_t logical_devices = 1;
  /// What ends each step, behind all updates (Model::finish); may be empty.
  std::function<void(Graph&)> finish;
};

/// Replicates a step over the mesh (DeepMind's TF-Replicator, Buchlovsky et al. 2019; the RFC
/// "Replicator API", tensorflow/community 20181016-replicator). What run() gives is a Model, so the
/// one training loop runs it, with checkpoints, stops, metrics, resume and `plan`:
///
///   app.add_model("mine", [] { return Replicator({.inputs = …}).run(step, input); });
///
/// Where replicas live is the layout's affair (rule `replica:<mesh dim>`), how many there are the
/// deck's (replicate.replicas); neither changes results but through statistics that the step keeps
/// per replica. A replica may itself be cut by other rules.
class Replicator {
 public:
  explicit Replicator(ReplicatorOptions options);

  /// Without an input function samples come from the deck's data.source, shared out over replicas.
  std::unique_ptr<Model> run(StepFunction step, InputFunction input = {}) const;
  /// Several optimizers in one step, one after the other: each step function reads what the updates
  /// before it left. Evaluations run the first one, in Mode::eval.
  std::unique_ptr<Model> run(std::vector<OptimizedStep> steps, InputFunction input = {}) const;

 private:
  ReplicatorOptions options_;
};

}  // namespace tessera::replicate
