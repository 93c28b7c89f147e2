// SPDX-License-Identifier: BSD-3-Clause
// Gradients that a user gives, and residual blocks that are computed back.
#include <cmath>

#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/simulated_run.hpp"
#include "tessera/base/error.hpp"
#include "tessera/ops/einsum.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/install.hpp"
#include "tessera/ops/reduce.hpp"
#include "tessera/ops/shape_ops.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

const Shape kShape{{"b", 5}, {"n", 4}};

/// A stack of residual blocks on two halves, kept or computed back, and its weights' gradients.
struct Stack {
  VariableSet variables;
  Graph graph{"micro", variables};
  int depth;

  Stack(int layers, bool back) : depth(layers) {
    ops::install();
    const TensorSpec spec{kShape, DType::f64};
    const Tensor a = graph.input("a", spec), b = graph.input("b", spec);
    Graph::Halves x{a, b};
    std::vector<Tensor> weights;
    for (int layer = 0; layer < depth; ++layer) {
      const auto part = [&](const char* name) {
        const Tensor w = graph.input(concat(name, layer), {Shape{{"n", 4}, {"m", 4}}, DType::f64});
        weights.push_back(w);
        return [w](Tensor t) {
          return ops::rename(ops::tanh(ops::einsum({t, w}, Shape{{"b", 5}, {"m", 4}})), "m", "n");
        };
      };
      const auto f = part("f"), g = part("g");
      if (back) {
        x = graph.reversible(x, f, g);
      } else {
        const Tensor first = ops::add(x.first, f(x.second));
        x = {first, ops::add(x.second, g(first))};
      }
    }
    const Tensor loss =
        ops::reduce_sum(ops::multiply(x.first, ops::multiply(x.second, x.second)), Shape{});
    weights.push_back(a);
    weights.push_back(b);
    const auto slopes = gradients(loss, weights);
    for (std::size_t i = 0; i < slopes.size(); ++i) graph.fetch(concat("d", i), slopes[i]);
  }

  std::vector<double> run(const std::string& mesh, const std::string& rules) {
    SimulatedRun run(variables, {&graph}, layout(mesh, rules));
    Values inputs{{"a", waves(20, 0.5)}, {"b", waves(20, -0.7)}};
    for (int layer = 0; layer < depth; ++layer) {
      inputs[concat("f", layer)] = waves(16, 0.4 + 0.1 * layer);
      inputs[concat("g", layer)] = waves(16, 0.6 - 0.2 * layer);
    }
    run.run("micro", inputs);
    std::vector<double> all;
    for (int i = 0; i < 2 * depth + 2; ++i) {
      const auto part = run.fetch("micro", concat("d", i));
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }
};

std::int64_t arena_of(int depth, bool back) {
  const Stack stack(depth, back);
  return plan::compile(stack.variables, {&stack.graph}, {}).section("micro").arena_bytes;
}

}  // namespace

TEST_CASE("reversible blocks give the gradients of kept ones") {
  Stack kept(3, false), back(3, true);
  const auto expected = kept.run("", "");
  for (const auto& [mesh, rules] : {std::pair{"", ""}, std::pair{"x:2", "b:x"},
                                    std::pair{"x:3", "n:x"}, std::pair{"x:2,y:2", "b:x, m:y"}}) {
    INFO(mesh << " " << rules);
    const auto found = back.run(mesh, rules);
    REQUIRE(found.size() == expected.size());
    for (std::size_t i = 0; i < found.size(); ++i)
      CHECK(found[i] == Approx(expected[i]).epsilon(1e-10).margin(1e-12));
  }
}

TEST_CASE("a stack of reversible blocks keeps no more for being deep") {
  // Inputs and fetched gradients grow with the depth in both; what is kept between does not.
  const auto growth = [](bool back) { return arena_of(24, back) - arena_of(12, back); };
  const std::int64_t fixed = 12 * 2 * 2 * 16 * 8;  // 12 layers' weights and their gradients
  CHECK(growth(true) <= fixed + 12 * 2 * 2 * 64);
  CHECK(growth(false) > fixed + 12 * 2 * 20 * 8);
}

TEST_CASE("a gradient of one's own takes the place of the operations'") {
  for (const auto& [mesh, rules] : {std::pair{"", ""}, std::pair{"x:2", "b:x"}}) {
    VariableSet variables;
    Graph graph("micro", variables);
    const Tensor x = graph.input("x", {kShape, DType::f64});
    const auto y = graph.custom_gradient(
        {x}, [&] { return std::vector<Tensor>{ops::exp(ops::multiply(x, x))}; },
        [](std::span<const Tensor> inputs, std::span<const Tensor> outputs,
           std::span<const Tensor> slopes) {
          return std::vector<Tensor>{ops::add(ops::multiply(slopes[0], outputs[0]), inputs[0])};
        });
    const Tensor loss = ops::reduce_sum(ops::multiply(y[0], x), Shape{});
    graph.fetch("dx", gradients(loss, {x})[0]);
    SimulatedRun run(variables, {&graph}, layout(mesh, rules));
    const auto in = waves(20, 0.8);
    run.run("micro", {{"x", in}});
    const auto found = run.fetch("micro", "dx");
    for (std::size_t i = 0; i < in.size(); ++i) {
      const double out = std::exp(in[i] * in[i]);
      CHECK(found[i] == Approx(out + in[i] * out + in[i]));
    }
  }
}
