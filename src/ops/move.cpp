// SPDX-License-Identifier: BSD-3-Clause
#include "move.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"
#include "tessera/ops/exchange.hpp"
#include "tessera/ops/strategies.hpp"
#include "tessera/program/emitter.hpp"

namespace tessera::ops {
namespace {

template <class Specs>
std::vector<std::int64_t> sizes_of(const Specs& specs, const std::string& dim) {
  std::vector<std::int64_t> sizes;
  for (const TensorSpec& spec : specs) sizes.push_back(spec.shape.size_of(dim));
  return sizes;
}

}  // namespace

std::vector<TensorSpec> Move::infer(std::span<const TensorSpec> inputs) const {
  check_user(!inputs.empty(), type(), " along dim '", dim_, "' of no tensor");
  const TensorSpec& first = inputs[0];
  for (const TensorSpec& input : inputs) {
    check_user(input.dtype == first.dtype, type(), " of ", name_of(first.dtype), " and ",
               name_of(input.dtype), "; cast one of them first");
    check_user(input.shape.resized(dim_, 1) == first.shape.resized(dim_, 1), type(), " of ",
               first.shape.to_string(), " and ", input.shape.to_string(), ": all dims but '", dim_,
               "' must be equal and in the same order");
  }
  std::vector<TensorSpec> outputs;
  for (std::int64_t size : sizes_after(inputs))
    outputs.push_back({first.shape.resized(dim_, size), first.dtype});
  return outputs;
}

std::vector<Strategy> Move::strategies(const StrategyContext& context) const {
  const int dim = context.inputs[0].shape.index_of(dim_);
  auto strategies = passing_cuts(context, [](const std::string&) { return true; });
  for (auto& strategy : strategies)
    if (strategy.inputs[0].dim == dim)
      strategy.bytes = exchange_bytes(context.inputs, context.outputs, dim,
                                      runs(sizes_of(context.inputs, dim_)), context.ways);
  const bool all_partial =
      std::all_of(context.current.begin(), context.current.end(),
                  [](const State& state) { return state.kind == State::Kind::partial_sum; });
  if (all_partial)
    strategies.push_back({std::vector(context.inputs.size(), State::partial_sum()),
                          std::vector(context.outputs.size(), State::partial_sum())});
  return strategies;
}

void Move::lower(program::Emitter& emitter) const {
  program::ExchangeStep step;
  std::vector<TensorSpec> inputs;
  for (int i = 0; i < emitter.inputs(); ++i) {
    step.inputs.push_back(emitter.input(i));
    inputs.push_back(emitter.buffer(emitter.input(i)).spec);
  }
  for (int j = 0; j < emitter.outputs(); ++j) step.outputs.push_back(emitter.output(j));
  step.dim = inputs[0].shape.index_of(dim_);
  step.runs = runs(sizes_of(inputs, dim_));
  emitter.exchange(std::move(step));
}

}  // namespace tessera::ops
