// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/optim/update.hpp"

#include <algorithm>

#include "optim/rules.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/reduce.hpp"

namespace tessera::optim {

std::string gradient_name(const std::string& weight) {
  return "gradient/" + weight;
}
std::string slot_name(const std::string& slot, const std::string& weight) {
  return "optimizer/" + slot + "/" + weight;
}
std::string average_name(const std::string& weight) {
  return "ema/" + weight;
}

Tensor WeightUpdate::slot(const std::string& name, const Shape& shape) const {
  Variable slot;
  slot.name = slot_name(name, variable.name);
  slot.spec = {shape, variable.spec.dtype};
  slot.kind = Variable::Kind::slot;
  slot.initializer = Initializer::constant(0);
  slot.of = variable.name;
  return graph().variable(std::move(slot));
}

void WeightUpdate::assign_slot(const std::string& name, Tensor value) const {
  graph().assign(slot_name(name, variable.name), value);
}

ops::Value averaged(const OptimConfig& config, ops::Value average, ops::Value before,
                    ops::Value after, ops::Value first, ops::Value finite) {
  const ops::Value old = ops::select(first, before, average);
  return ops::select(finite, config.ema * old + (1 - config.ema) * after, old);
}

namespace {

/// A scalar function of the step, computed in f64 and kept in `dtype`: 1 - 0.999^step in f32 would
/// lose four digits at the first steps.
Tensor of_step(Tensor step, DType dtype, const std::string& name,
               const std::function<ops::Value(ops::Value)>& function) {
  return ops::pointwise1({step}, [&](std::span<const ops::Value> in) { return function(in[0]); },
                         {.shape = Shape{}, .dtypes = {dtype}, .name = name});
}

Tensor bias_correction(Tensor step, DType dtype, double beta) {
  return of_step(step, dtype, "bias_correction", [&](ops::Value t) {
    return (1.0 - t.constant(beta).apply(ops::PointOp::power, t)).apply(ops::PointOp::reciprocal);
  });
}

Scalars make_scalars(Graph& graph, const OptimConfig& config, DType dtype,
                     const std::vector<Tensor>& gradients) {
  std::vector<Tensor> squares;
  for (const auto& gradient : gradients)
    squares.push_back(ops::reduce_sum_squares(gradient, Shape{}));
  // Each logical device has its weights' part; all need the whole.
  const Graph::Device everywhere(graph, kEverywhere);
  const Tensor total = ops::add_n(squares);
  const Tensor norm = ops::sqrt(total);
  Scalars scalars;
  scalars.finite = ops::is_finite(total);
  graph.fetch("grad_norm", norm);
  graph.fetch("finite", scalars.finite);
  if (config.clip_norm > 0)
    scalars.clip = ops::pointwise1({norm},
                                   [&](std::span<const ops::Value> in) {
                                     return (in[0].constant(config.clip_norm) / in[0])
                                         .apply(ops::PointOp::minimum, in[0].constant(1));
                                   },
                                   {.shape = {}, .dtypes = {}, .name = "clip"});
  scalars.lr = graph.feed("lr", dtype);
  scalars.step = graph.feed("step", DType::f64);
  if (config.name == "adam" || config.name == "adamw") {
    scalars.correct1 = bias_correction(scalars.step, dtype, config.beta1);
    scalars.correct2 = bias_correction(scalars.step, dtype, config.beta2);
  }
  if (config.name == "adafactor")
    scalars.decay = of_step(scalars.step, dtype, "decay", [&](ops::Value t) {
      return 1.0 - t.apply(ops::PointOp::power, t.constant(-config.decay_exponent));
    });
  if (config.ema > 0)
    scalars.first = of_step(scalars.step, dtype, "first", [](ops::Value t) {
      return t.apply(ops::PointOp::less, t.constant(1.5));
    });
  return scalars;
}

/// Declares the average of a weight.
void declare_average(Graph& graph, const Variable& weight) {
  Variable average;
  average.name = average_name(weight.name);
  average.spec = weight.spec;
  average.kind = Variable::Kind::state;
  average.of = weight.name;
  graph.variable(std::move(average));
}

}  // namespace

std::vector<std::string> trainable_weights(const VariableSet& variables,
                                           const std::vector<std::string>& patterns) {
  std::vector<std::string> names;
  for (const auto& variable : variables)
    if (variable.kind == Variable::Kind::weight && variable.trainable &&
        std::any_of(patterns.begin(), patterns.end(),
                    [&](const auto& pattern) { return matches_pattern(pattern, variable.name); }))
      names.push_back(variable.name);
  return names;
}

void build_update(Graph& graph, const OptimConfig& config,
                  const std::vector<std::string>& patterns) {
  std::vector<Variable> weights;
  for (const auto& name : trainable_weights(graph.variables(), patterns))
    weights.push_back(graph.variables()[graph.variables().find(name)]);
  check_user(!weights.empty(),
             "optim.freeze leaves no weight to train; drop the pattern that matches everything");
  std::vector<Tensor> gradients;
  for (const auto& weight : weights) gradients.push_back(graph.read(gradient_name(weight.name)));
  const Scalars scalars = make_scalars(graph, config, weights[0].spec.dtype, gradients);
  std::vector<WeightUpdate> updates;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (config.ema > 0) declare_average(graph, weights[i]);
    const bool decays = weights[i].decay || config.decay_all;
    updates.push_back({config, scalars, weights[i], graph.read(weights[i].name), gradients[i],
                       decays ? config.weight_decay : 0});
  }
  if (config.name == "adafactor") return update_by_adafactor(updates);
  for (const auto& update : updates) update_by_moments(update);
}

}  // namespace tessera::optim
