// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/nn/follow.hpp"

#include "tessera/base/error.hpp"
#include "tessera/ops/pointwise.hpp"

namespace tessera::nn {
namespace {

/// 1 in steps that are multiples of the period, else 0.
Tensor is_due(Graph& graph, std::int64_t period) {
  const auto length = static_cast<double>(period);
  const auto due = [length](ops::Value step) {
    // Half a step more than the quotient: its round-off must not count.
    const ops::Value periods =
        (1 / length * step + step.constant(0.5 / length)).apply(ops::PointOp::floor);
    return (length * periods).apply(ops::PointOp::equal, step);
  };
  return ops::pointwise1({graph.feed("step", DType::f64)},
                         [&](std::span<const ops::Value> in) { return due(in[0]); },
                         {.shape = Shape{}, .dtypes = {DType::f32}, .name = "is_due"});
}

}  // namespace

void follow(Graph& graph, const std::string& copy, double rate, std::int64_t period) {
  TESSERA_CHECK(rate > 0 && rate <= 1 && period >= 1, "nn::follow by rate ", rate, ", period ",
                period);
  std::vector<Variable> copies;
  for (const auto& variable : graph.variables())
    if (!variable.drawn_as.empty() && variable.name.starts_with(copy + "/"))
      copies.push_back(variable);
  TESSERA_CHECK(!copies.empty(), "there are no copies of weights in scope '", copy, "'");
  const Tensor due = period > 1 ? is_due(graph, period) : Tensor();
  for (const auto& variable : copies) {
    std::vector<Tensor> operands{graph.read(variable.name), graph.read(variable.of)};
    if (due) operands.push_back(due);
    const auto moved = [&](std::span<const ops::Value> in) {
      const ops::Value value = (1 - rate) * in[0] + rate * in[1];
      return due ? ops::select(in[2], value, in[0]) : value;
    };
    graph.assign(variable.name,
                 ops::pointwise1(operands, moved,
                                 {.shape = variable.spec.shape, .dtypes = {}, .name = "follow"}));
  }
}

}  // namespace tessera::nn
