// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/ops/strategies.hpp"

#include <algorithm>

namespace tessera::ops {

std::vector<Cut> candidate_cuts(const StrategyContext& context) {
  std::vector<Cut> cuts;
  const auto consider = [&](const Shape& shape, int dim, bool inner) {
    if (dim < 0) return;
    const Cut cut{shape[dim].name, inner};
    if (std::find(cuts.begin(), cuts.end(), cut) == cuts.end()) cuts.push_back(cut);
  };
  for (std::size_t i = 0; i < context.current.size(); ++i)
    if (context.current[i].is_split())
      consider(context.inputs[i].shape, context.current[i].dim, context.current[i].inner);
  for (std::size_t i = 0; i < context.ruled_inputs.size(); ++i)
    consider(context.inputs[i].shape, context.ruled_inputs[i], false);
  for (std::size_t i = 0; i < context.ruled_outputs.size(); ++i)
    consider(context.outputs[i].shape, context.ruled_outputs[i], false);
  return cuts;
}

State state_under(const Cut& cut, const Shape& shape) {
  const auto dim = shape.find(cut.name);
  return dim ? State::split(*dim, cut.inner) : State::replicated();
}

std::vector<State> states_under(const Cut& cut, std::span<const TensorSpec> operands) {
  std::vector<State> states;
  for (const auto& operand : operands) states.push_back(state_under(cut, operand.shape));
  return states;
}

std::vector<Strategy> candidate_strategies(const StrategyContext& context) {
  std::vector<Strategy> strategies;
  for (const auto& cut : candidate_cuts(context))
    strategies.push_back({states_under(cut, context.inputs), states_under(cut, context.outputs)});
  return strategies;
}

std::vector<State> all_replicated(std::size_t count) {
  return std::vector<State>(count);
}

std::vector<Strategy> passing_cuts(const StrategyContext& context,
                                   const std::function<bool(const std::string&)>& legal) {
  std::vector<Strategy> strategies;
  for (const auto& cut : candidate_cuts(context)) {
    const bool in_all_outputs =
        std::all_of(context.outputs.begin(), context.outputs.end(),
                    [&](const TensorSpec& output) { return output.shape.contains(cut.name); });
    if (in_all_outputs && legal(cut.name))
      strategies.push_back({states_under(cut, context.inputs), states_under(cut, context.outputs)});
  }
  return strategies;
}

void add_linear(std::vector<Strategy>& strategies, const StrategyContext& context, std::size_t i,
                const std::vector<std::size_t>& linear_outputs) {
  if (context.current[i].kind != State::Kind::partial_sum) return;
  Strategy strategy{all_replicated(context.inputs.size()), all_replicated(context.outputs.size())};
  strategy.inputs[i] = State::partial_sum();
  for (auto output : linear_outputs) strategy.outputs[output] = State::partial_sum();
  strategies.push_back(std::move(strategy));
}

Placement mapped(const Placement& placement, const std::vector<int>& map) {
  Placement result(placement.mesh_rank());
  for (int m = 0; m < placement.mesh_rank(); ++m) {
    const State& state = placement[m];
    if (!state.is_split()) continue;
    const int dim = map[static_cast<std::size_t>(state.dim)];
    if (dim >= 0) result[m] = State::split(dim, state.inner);
  }
  return result;
}

std::vector<int> dim_map(const Shape& from, const Shape& to) {
  std::vector<int> map;
  for (const auto& dim : from) map.push_back(to.find(dim.name).value_or(-1));
  return map;
}

std::vector<int> mesh_dims_of(const Placement& placement, int dim) {
  return dim < 0 ? std::vector<int>{} : placement.mesh_dims_splitting(dim);
}

}  // namespace tessera::ops
