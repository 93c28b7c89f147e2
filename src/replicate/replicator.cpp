// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/replicate/replicator.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/reduce.hpp"

namespace tessera::replicate {
namespace {

/// UserError if the step function made a variable of its own for each replica.
void check_variables(const VariableSet& variables) {
  for (const auto& variable : variables)
    check_user(!variable.spec.shape.contains(ReplicaContext::kReplica), "variable '", variable.name,
               "' ", variable.spec.shape.to_string(), " has the dim ", ReplicaContext::kReplica,
               ": variables are made once and equal on all replicas; give it the dims of one "
               "replica, or another dim's name if it is a table of several");
}

/// A loss that is a mean, as the sum over its samples of weight x loss.
Tensor times_weights(Tensor loss, const Batch& batch) {
  const Tensor weights = ops::cast(batch["weights"], loss.dtype());
  return ops::multiply(loss, ops::reduce_sum(weights, loss.shape()));
}

/// Step functions with what they need to be a model.
class FunctionModel final : public ReplicatedModel {
 public:
  FunctionModel(ReplicatorOptions options, std::vector<OptimizedStep> steps, InputFunction input)
      : options_(std::move(options)), steps_(std::move(steps)), input_(std::move(input)) {}

  void describe(config::Schema& schema) override {
    if (options_.describe) options_.describe(schema);
  }
  std::vector<InputSpec> inputs(std::int64_t rows, std::int64_t) const override {
    auto inputs = options_.inputs();
    if (std::none_of(inputs.begin(), inputs.end(),
                     [](const auto& input) { return input.name == "weights"; }))
      inputs.push_back({"weights", {Shape{}, DType::f32}});
    for (auto& input : inputs) {
      std::vector<Dim> dims{{"batch", rows}};
      for (const auto& dim : input.spec.shape) dims.push_back(dim);
      input.spec.shape = Shape(std::move(dims));
    }
    return inputs;
  }
  std::vector<Phase> phases() const override {
    std::vector<Phase> phases;
    for (const auto& step : steps_) phases.push_back(step.phase);
    return phases;
  }
  std::int64_t logical_devices() const override { return options_.logical_devices; }
  void finish(Graph& graph) override {
    if (options_.finish) options_.finish(graph);
  }
  std::optional<InputMode> input_mode() const override {
    return input_ ? std::optional(options_.input_mode) : std::nullopt;
  }
  std::shared_ptr<const data::Samples> open_pipeline(const InputContext& context) const override {
    return input_(context);
  }

 protected:
  Tensor step(const ReplicaContext& context, const Batch& batch) override {
    for (const auto& step : steps_)
      if (batch.mode == Mode::eval || step.phase.name == batch.phase)
        return step.function(context, batch);
    TESSERA_CHECK(false, "no step function for phase '", batch.phase, "'");
  }
  LossKind loss_kind() const override { return options_.loss; }

 private:
  ReplicatorOptions options_;
  std::vector<OptimizedStep> steps_;
  InputFunction input_;
};

}  // namespace

Tensor ReplicatedModel::loss(Graph& graph, const Batch& batch) {
  const ReplicaContext context(graph, batch.replicas);
  const Tensor loss = step(context, batch);
  check_variables(graph.variables());
  const Shape each{{ReplicaContext::kReplica, batch.replicas}};
  check_user(static_cast<bool>(loss), "the step function gave no loss");
  check_user(loss.shape() == each || loss.shape().rank() == 0, "the step function's loss is ",
             loss.shape().to_string(), "; legal are ", each.to_string(),
             ", one for each replica, and a scalar for all of them");
  return ops::reduce_sum(loss_kind() == LossKind::mean ? times_weights(loss, batch) : loss,
                         Shape{});
}

Replicator::Replicator(ReplicatorOptions options) : options_(std::move(options)) {
  check_user(static_cast<bool>(options_.inputs), "a Replicator needs to know its inputs");
}

std::unique_ptr<Model> Replicator::run(StepFunction step, InputFunction input) const {
  return run({wrap_optimizer({}, std::move(step))}, std::move(input));
}

std::unique_ptr<Model> Replicator::run(std::vector<OptimizedStep> steps,
                                       InputFunction input) const {
  check_user(!steps.empty(), "a Replicator needs a step function");
  for (const auto& step : steps)
    check_user(static_cast<bool>(step.function), "step '", step.phase.name,
               "' of a Replicator has no function");
  return std::make_unique<FunctionModel>(options_, std::move(steps), std::move(input));
}

OptimizedStep wrap_optimizer(Phase phase, StepFunction step) {
  return {std::move(phase), std::move(step)};
}

}  // namespace tessera::replicate
