// SPDX-License-Identifier: BSD-3-Clause
// The part of SectionPlanner that sees what it costs to leave a partial sum as it is.
#include <algorithm>

#include "relayout.hpp"
#include "section_planner.hpp"

namespace tessera::plan {

namespace {
/// So many operations may lie between a partial sum and the sum that it joins.
constexpr int kFarthest = 6;
/// A gradient is reduced with others in one bucket, so that is a little cheaper than by itself.
constexpr double kInBucket = 0.9;
}  // namespace

/// By output and mesh dim: bytes of reducing it later, if it comes out as a partial sum. Looked at
/// only where an input is one; elsewhere what reducing the output itself costs.
std::vector<std::vector<double>> SectionPlanner::resting_bytes(const Node& node) const {
  std::vector<std::vector<double>> bytes(node.outputs.size());
  for (int m = 0; m < storage_.mesh().rank(); ++m) {
    const bool any = std::any_of(node.inputs.begin(), node.inputs.end(),
                                 [&](int input) { return is_partial_sum(input, m); });
    for (std::size_t j = 0; j < node.outputs.size(); ++j)
      bytes[j].push_back(resting_bytes(node.outputs[j], m, any ? kFarthest : 0));
  }
  return bytes;
}

bool SectionPlanner::is_partial_sum(int tensor, int m) const {
  const auto& versions = versions_[static_cast<std::size_t>(tensor)];
  return !versions.empty() && versions.back().placement[m].kind == State::Kind::partial_sum;
}

/// Operations may pass a partial sum on, make it smaller, or add it to one that is there already,
/// which costs nothing. So a gradient that comes through a number made of a whole weight (its norm)
/// is added to the weight's own before anything is reduced.
double SectionPlanner::resting_bytes(int tensor, int m, int steps) const {
  const auto& readers = readers_[static_cast<std::size_t>(tensor)];
  const int variable = assigned_to_[static_cast<std::size_t>(tensor)];
  Placement partial = wanted(tensor, -1);
  const State rules = partial[m];
  partial[m] = State::partial_sum();
  const double own = state_bytes(spec_of(tensor), partial, m, rules, storage_.mesh());
  if (variable >= 0)
    return storage_.variable(variable).kind == Variable::Kind::gradient && steps > 0
               ? kInBucket * own
               : own;
  if (steps == 0 || readers.empty()) return own;
  double through = 0;
  for (int reader : readers) {
    const Node& node = graph_.nodes()[static_cast<std::size_t>(reader)];
    std::vector<State> states(node.inputs.size());
    bool joined = false;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const bool other = node.inputs[i] != tensor && is_partial_sum(node.inputs[i], m);
      if (node.inputs[i] == tensor || other) states[i] = State::partial_sum();
      joined = joined || other;
    }
    if (!passes(node, states, m)) {
      // What is not computed yet may come as a partial sum, too.
      for (std::size_t i = 0; i < node.inputs.size(); ++i)
        if (versions_[static_cast<std::size_t>(node.inputs[i])].empty())
          states[i] = State::partial_sum();
      if (!passes(node, states, m)) return own;
    }
    for (int output : node.outputs)
      if (!joined && used_[static_cast<std::size_t>(output)])
        through += resting_bytes(output, m, steps - 1);
  }
  return std::min(own, through);
}

/// Whether the operation takes these states and gives partial sums.
bool SectionPlanner::passes(const Node& node, const std::vector<State>& states, int m) const {
  std::vector<TensorSpec> inputs, outputs;
  for (int input : node.inputs) inputs.push_back(spec_of(input));
  for (int output : node.outputs) outputs.push_back(spec_of(output));
  const std::vector<State> wanted(outputs.size());
  const std::vector<int> no_inputs(inputs.size(), -1), no_outputs(outputs.size(), -1);
  const auto strategies = node.operation->strategies(
      {inputs, outputs, states, wanted, no_inputs, no_outputs, storage_.mesh()[m].size});
  return std::any_of(strategies.begin(), strategies.end(), [&](const Strategy& strategy) {
    return strategy.inputs == states &&
           std::all_of(strategy.outputs.begin(), strategy.outputs.end(),
                       [](const State& state) { return state.kind == State::Kind::partial_sum; });
  });
}

}  // namespace tessera::plan
