// SPDX-License-Identifier: BSD-3-Clause
// Times of a mixture of experts on this machine. Reads lines "batch length width hidden experts
// choices" and answers each with the CPU milliseconds of the layer forward, and of forward and
// backward together, in f32, each the best of three runs. For people; compare_moe.py sets it beside
// PyTorch.
#include <iostream>
#include <random>

#include "support/bench.hpp"
#include "support/simulated_run.hpp"
#include "tessera/nn/moe.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/install.hpp"
#include "tessera/ops/reduce.hpp"

using namespace tessera;

namespace {

struct Size {
  std::int64_t batch, length, width, hidden, experts, choices;
};

void build(Graph& graph, const Size& size, bool backward) {
  nn::MoeConfig config;
  config.experts = size.experts;
  config.choices = size.choices;
  const TensorSpec spec{{{"batch", size.batch}, {"length", size.length}, {"d", size.width}},
                        DType::f32};
  const Tensor x = graph.input("x", spec);
  const auto out = nn::moe(x, "d", {"hidden", size.hidden}, config,
                           {.feed_forward = {.activation = nn::Activation::relu, .bias = false}});
  const Tensor weighed = ops::multiply(out.value, graph.input("slopes", spec));
  const Tensor loss = ops::add(ops::reduce_sum(weighed, Shape{}), out.loss);
  graph.fetch("loss", loss);
  if (!backward) return;
  const auto slopes =
      gradients(loss, {x, graph.read("gate"), graph.read("up"), graph.read("down")});
  for (std::size_t i = 0; i < slopes.size(); ++i) graph.fetch("d_" + std::to_string(i), slopes[i]);
}

void fill_inputs(runtime::Executor& executor, const std::string& section, std::int64_t elements) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(elements));
  for (const char* name : {"x", "slopes"}) {
    for (auto& value : values) value = normal(random);
    executor.set_input(section, name, 0, values.data());
  }
}

double milliseconds(const Size& size, bool backward) {
  VariableSet variables;
  Graph graph("layer", variables);
  build(graph, size, backward);
  const auto program = plan::compile(variables, {&graph}, {});
  comm::SimulatedCollectives collectives(program.mesh, &test::shared_exec());
  runtime::Executor executor(program, collectives, test::shared_exec());
  executor.initialize(1);
  return test::best_of_three(
      [&] { fill_inputs(executor, "layer", size.batch * size.length * size.width); },
      [&] {
        executor.run("layer", {1, 0, {}});
        test::shared_exec().fence();
      });
}

}  // namespace

int main() {
  ops::install();
  test::shared_exec();
  Size size;
  while (std::cin >> size.batch >> size.length >> size.width >> size.hidden >> size.experts >>
         size.choices)
    std::cout << milliseconds(size, false) << ' ' << milliseconds(size, true) << std::endl;
  return 0;
}
