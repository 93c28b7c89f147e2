// SPDX-License-Identifier: BSD-3-Clause
// Projections of distributions and n-step returns for numpy_agent_test.py. Reads cases and prints
// a line of numbers for each:
//   project ATOMS LOW HIGH ROWS, then for each row its probabilities, reward and discount;
//   returns N GAMMA STEPS END_DISCOUNT, then the rewards: of each transition reward, discount and
//   the number of the step whose observation is its next.
#include <cstdio>
#include <iostream>

#include "support/simulated_run.hpp"
#include "tessera/env/n_step.hpp"
#include "tessera/nn/categorical.hpp"

using namespace tessera;

namespace {

void project(std::istream& from) {
  nn::Support support;
  std::int64_t rows;
  from >> support.atoms >> support.low >> support.high >> rows;
  test::Values values;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t i = 0; i < support.atoms; ++i) from >> values["p"].emplace_back();
    from >> values["reward"].emplace_back() >> values["discount"].emplace_back();
  }
  VariableSet variables;
  Graph graph("op", variables);
  const Dim batch{"batch", rows};
  const auto input = [&](const char* name, const Shape& shape) {
    return graph.input(name, {shape, DType::f64});
  };
  graph.fetch("result", nn::project_categorical(input("p", {batch, support.along()}),
                                                input("reward", {batch}),
                                                input("discount", {batch}), support));
  plan::PlanOptions options;
  options.mesh = MeshShape::parse("data:2,model:2", 0);
  options.layout = Layout::parse("batch:data, atom:model");
  test::SimulatedRun run(variables, {&graph}, options);
  run.run("op", values);
  for (double value : run.fetch("op", "result")) std::printf("%.17g ", value);
}

void returns(std::istream& from) {
  int n, steps;
  double gamma, end_discount;
  from >> n >> gamma >> steps >> end_discount;
  env::NStep queue(n, gamma, 1, 1);
  for (int step = 0; step < steps; ++step) {
    double reward;
    from >> reward;
    const std::vector<float> before{static_cast<float>(step)}, after{static_cast<float>(step + 1)};
    const bool is_last = step + 1 == steps;
    queue.add(before, before, reward, is_last ? end_discount : 1, after, is_last,
              [](const env::Transition& made) {
                std::printf("%.17g %.17g %g ", made.reward, made.discount,
                            static_cast<double>(made.next[0]));
              });
  }
}

}  // namespace

int main() {
  for (std::string kind; std::cin >> kind;) {
    kind == "project" ? project(std::cin) : returns(std::cin);
    std::printf("\n");
  }
  return 0;
}
