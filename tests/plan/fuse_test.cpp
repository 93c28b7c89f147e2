// SPDX-License-Identifier: BSD-3-Clause
#include "support/catch.hpp"
#include "tessera/ops/einsum.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/plan/planner.hpp"

using namespace tessera;

namespace {

int kernels(const program::Section& section, const std::string& id) {
  int count = 0;
  for (const auto& step : section.steps)
    if (const auto* kernel = std::get_if<program::KernelStep>(&step)) count += kernel->kernel == id;
  return count;
}

}  // namespace

TEST_CASE("a chain of elementwise operations is one pass over memory") {
  VariableSet variables;
  Graph graph("chain", variables);
  const Tensor x = graph.input("x", {Shape{{"n", 10}, {"m", 4}}, DType::f32});
  const Tensor b = graph.input("b", {Shape{{"m", 4}}, DType::f32});
  Tensor y = ops::gelu(ops::add(x, b));
  y = ops::multiply(y, ops::exp(x));
  graph.fetch("y", y);
  const auto program = plan::compile(variables, {&graph}, {});
  CHECK(kernels(program.section("chain"), "pointwise") == 1);
  CHECK(program.section("chain").steps.size() == 1);
}

TEST_CASE("a bias is added again where it is needed instead of being stored") {
  VariableSet variables;
  Graph graph("bias", variables);
  const Tensor x = graph.input("x", {Shape{{"n", 10}, {"k", 3}}, DType::f32});
  const Tensor w = graph.input("w", {Shape{{"k", 3}, {"m", 4}}, DType::f32});
  const Tensor b = graph.input("b", {Shape{{"m", 4}}, DType::f32});
  const Tensor h = ops::add(ops::einsum({x, w}, Shape{{"n", 10}, {"m", 4}}), b);
  const Tensor y = ops::einsum({ops::gelu(h), w}, Shape{{"n", 10}, {"k", 3}});
  const Tensor z = ops::einsum({ops::tanh(h), y}, Shape{{"k", 3}, {"m", 4}});
  graph.fetch("z", z);
  const auto program = plan::compile(variables, {&graph}, {});
  const auto& section = program.section("bias");
  CHECK(kernels(section, "pointwise") == 2);
  CHECK(kernels(section, "einsum") == 3);
}

TEST_CASE("partial sums are added before they are reduced once") {
  VariableSet variables;
  Graph graph("lazy", variables);
  const Shape left{{"n", 10}, {"k", 300}}, right{{"k", 300}, {"m", 40}};
  const Tensor x = graph.input("x", {left, DType::f32}), u = graph.input("u", {left, DType::f32});
  const Tensor w = graph.input("w", {right, DType::f32}), v = graph.input("v", {right, DType::f32});
  const Shape out{{"n", 10}, {"m", 40}};
  graph.fetch("y", ops::gelu(ops::add(ops::einsum({x, w}, out), ops::einsum({u, v}, out))));
  plan::PlanOptions options;
  options.mesh = MeshShape({{"model", 2}});
  options.layout = Layout::parse("k:model");
  const auto program = plan::compile(variables, {&graph}, options);
  int reductions = 0;
  for (const auto& step : program.section("lazy").steps)
    reductions += std::holds_alternative<program::AllReduceStep>(step);
  CHECK(reductions == 1);
}
