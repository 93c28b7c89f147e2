// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/models/d4pg.hpp"

#include "tessera/nn/follow.hpp"
#include "tessera/nn/layers.hpp"
#include "tessera/nn/weights.hpp"
#include "tessera/ops/activations.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/reduce.hpp"
#include "tessera/ops/softmax.hpp"

namespace tessera::models {
namespace {

constexpr const char* kTarget = "target";

/// Layers have two names for their dims in turn, as a weight's dims must differ.
Dim layer_dim(std::int64_t layer, std::int64_t size) {
  return {layer % 2 == 0 ? "hidden" : "units", size};
}

std::string last_dim(Tensor x) {
  return x.shape()[x.shape().rank() - 1].name;
}

}  // namespace

void D4pg::describe(config::Schema& schema) {
  schema.add("model.hidden", config_.hidden, "width of the layers of critic and policy")
      .range(1, 1e9);
  schema.add("model.layers", config_.layers, "hidden layers of critic and of policy").range(1, 100);
  schema.add("model.layer_norm", config_.layer_norm,
             "layer norm and tanh behind the first layer; false: elu as behind the others");
  schema.add("model.atoms", config_.atoms, "numbers over which the critic spreads a return")
      .range(2, 1e6);
  schema.add("model.v_min", config_.v_min, "the least return that the critic can tell");
  schema.add("model.v_max", config_.v_max, "the largest return that the critic can tell");
  schema.add("model.policy_lr", config_.policy_lr, "learning rate of the policy; 0: optim.lr")
      .range(0, 1e6);
  schema
      .add("model.target_rate", config_.target_rate,
           "share of the way that the copies of critic and policy go towards them; 1: all")
      .range(1e-9, 1);
  schema.add("model.target_period", config_.target_period, "steps between two moves of the copies")
      .range(1, 1e9);
}

void D4pg::validate() const {
  support().validate("model.atoms, model.v_min and model.v_max");
}

nn::Support D4pg::support() const {
  return {config_.atoms, config_.v_min, config_.v_max, "atom"};
}

std::vector<replicate::InputSpec> D4pg::inputs(std::int64_t rows, std::int64_t) const {
  const Dim batch{"batch", rows};
  const TensorSpec seen{Shape{batch, {"observation", spaces_.observation}}, DType::f32};
  const TensorSpec done{Shape{batch, {"action", spaces_.action}}, DType::f32};
  const TensorSpec number{Shape{batch}, DType::f32};
  return {{"observation", seen}, {"action", done}, {"reward", number},
          {"discount", number},  {"next", seen},   {"weights", number}};
}

std::vector<replicate::Phase> D4pg::phases() const {
  const double lr = config_.policy_lr;
  const auto adjust = [lr](optim::OptimConfig& optim) { optim.lr = lr > 0 ? lr : optim.lr; };
  return {{.name = "critic", .weights = {"critic/*"}},
          {.name = "policy", .weights = {"policy/*"}, .fresh_batch = false, .adjust = adjust}};
}

/// The layers behind the first projection.
Tensor D4pg::torso(Tensor x) const {
  if (config_.layer_norm)
    x = ops::tanh(nn::norm(x, last_dim(x), nn::Norm::layer, true, 1e-5, "norm"));
  else
    x = ops::elu(x);
  for (std::int64_t layer = 1; layer < config_.layers; ++layer)
    x = ops::elu(nn::dense(x, {last_dim(x)}, {layer_dim(layer, config_.hidden)},
                           {.name = "layer_" + std::to_string(layer), .bias = true}));
  return x;
}

/// Actions [rows…, action] in [-1, 1] for observations [rows…, observation].
Tensor D4pg::policy(Tensor observation) const {
  const Graph::Scope scope(observation.graph(), "policy");
  // Actions begin near the middle, where tanh has a slope.
  constexpr double kSmall = 0.01;
  const Tensor x = torso(nn::dense(observation, {"observation"}, {layer_dim(0, config_.hidden)},
                                   {.name = "layer_0", .bias = true}));
  return ops::tanh(nn::dense(x, {last_dim(x)}, {{"action", spaces_.action}},
                             {.name = "action", .bias = true, .gain = kSmall}));
}

/// Logits [rows…, atom] of the return's distribution.
Tensor D4pg::critic(Tensor observation, Tensor action) const {
  const Graph::Scope scope(observation.graph(), "critic");
  const Dim hidden = layer_dim(0, config_.hidden);
  // One layer of both, as if they stood in one vector.
  const Tensor seen =
      nn::dense(observation, {"observation"}, {hidden}, {.name = "layer_0", .bias = true});
  const Tensor done = nn::dense(action, {"action"}, {hidden}, {.name = "layer_0_action"});
  const Tensor x = torso(ops::add(seen, done));
  return nn::dense(x, {last_dim(x)}, {support().along()}, {.name = "atoms", .bias = true});
}

Tensor D4pg::critic_loss(Graph& graph, const replicate::Batch& batch) const {
  const auto as_numbers = [&](const char* input) { return ops::cast(batch[input], batch.dtype); };
  Tensor target;
  {
    const Graph::Copy copy(graph, kTarget);
    const Tensor next = as_numbers("next");
    const Tensor expected = ops::softmax(critic(next, policy(next)), "atom");
    target = ops::stop_gradient(
        nn::project_categorical(expected, as_numbers("reward"), as_numbers("discount"), support()));
  }
  const Tensor logits = critic(as_numbers("observation"), as_numbers("action"));
  const Tensor rows = nn::categorical_cross_entropy(logits, target, support());
  graph.fetch("priority", rows);
  const Tensor weights = as_numbers("weights");
  const Tensor value = nn::expectation(ops::softmax(logits, "atom"), support());
  replicate::add_metric(graph, "value", ops::reduce_sum(value, Shape{}));
  return nn::weighted_sum(rows, weights);
}

Tensor D4pg::policy_loss(const replicate::Batch& batch) const {
  const Tensor observation = ops::cast(batch["observation"], batch.dtype);
  const Tensor logits = critic(observation, policy(observation));
  const Tensor value = nn::expectation(ops::softmax(logits, "atom"), support());
  return ops::negate(ops::reduce_sum(value, Shape{}));
}

Tensor D4pg::loss(Graph& graph, const replicate::Batch& batch) {
  return batch.phase == "policy" ? policy_loss(batch) : critic_loss(graph, batch);
}

void D4pg::finish(Graph& graph) {
  nn::follow(graph, kTarget, config_.target_rate, config_.target_period);
}

Tensor D4pg::act(Graph&, const replicate::Batch& batch) {
  return policy(ops::cast(batch["observation"], batch.dtype));
}

}  // namespace tessera::models
