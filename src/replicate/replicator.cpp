// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/replicate/replicator.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/reduce.hpp"

namespace tessera::replicate {
namespace {

const char* const kReplica = ReplicaContext::kReplica;

/// UserError if the step function made a variable of its own for each replica.
void check_variables(const VariableSet& variables) {
  for (const auto& variable : variables)
    check_user(!variable.spec.shape.contains(kReplica), "variable '", variable.name, "' ",
               variable.spec.shape.to_string(), " has the dim ", kReplica,
               ": variables are made once and equal on all replicas; give it the dims of one "
               "replica, or another dim's name if it is a table of several");
}

/// A loss that is a mean, as the sum over its samples of weight x loss.
Tensor times_weights(Tensor loss, const Batch& batch) {
  const Tensor weights = ops::cast(batch["weights"], loss.dtype());
  return ops::multiply(loss, ops::reduce_sum(weights, loss.shape()));
}

/// A step function with what it needs to be a model.
class FunctionModel final : public ReplicatedModel {
 public:
  FunctionModel(ReplicatorOptions options, Replicator::StepFunction step, InputFunction input)
      : options_(std::move(options)), step_(std::move(step)), input_(std::move(input)) {}

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
  std::optional<InputMode> input_mode() const override {
    return input_ ? std::optional(options_.input_mode) : std::nullopt;
  }
  std::shared_ptr<const data::Samples> open_pipeline(const InputContext& context) const override {
    return input_(context);
  }

 protected:
  Tensor step(const ReplicaContext& context, const Batch& batch) override {
    return step_(context, batch);
  }
  LossKind loss_kind() const override { return options_.loss; }

 private:
  ReplicatorOptions options_;
  Replicator::StepFunction step_;
  InputFunction input_;
};

}  // namespace

Tensor ReplicatedModel::loss(Graph& graph, const Batch& batch) {
  const ReplicaContext context(graph, batch.replicas);
  const Tensor loss = step(context, batch);
  check_variables(graph.variables());
  const Shape each{{kReplica, batch.replicas}};
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
  check_user(static_cast<bool>(step), "a Replicator needs a step function");
  return std::make_unique<FunctionModel>(options_, std::move(step), std::move(input));
}

}  // namespace tessera::replicate
