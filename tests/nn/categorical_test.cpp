// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/nn/categorical.hpp"

#include <algorithm>
#include <cmath>

#include "support/catch.hpp"
#include "support/op_case.hpp"
#include "tessera/base/error.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/reduce.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

const nn::Support kSupport{7, -1.5, 2, "atom"};
const Shape kRows{{"batch", 4}, {"atom", 7}};

/// Algorithm 1 of Bellemare et al.: each moved atom goes to the atoms below and above it.
std::vector<double> projected(const Values& values) {
  const auto &p = values.at("p"), &reward = values.at("r"), &discount = values.at("d");
  std::vector<double> result(28, 0);
  for (std::size_t row = 0; row < 4; ++row)
    for (std::size_t j = 0; j < 7; ++j) {
      const double z = -1.5 + static_cast<double>(j) * 3.5 / 6;
      const double moved = std::clamp(reward[row] + discount[row] * z, -1.5, 2.0);
      const double place = (moved + 1.5) / (3.5 / 6);
      const double below = std::min(std::floor(place), 5.0);
      const auto at = 7 * row + static_cast<std::size_t>(below);
      result[at] += p[7 * row + j] * (below + 1 - place);
      result[at + 1] += p[7 * row + j] * (place - below);
    }
  return result;
}

}  // namespace

TEST_CASE("a distribution that is moved is shared out to the atoms beside, under every layout") {
  OpCase c;
  c.name = "project_categorical";
  c.inputs = {{"p", kRows}, {"r", {{"batch", 4}}}, {"d", {{"batch", 4}}}};
  c.build = [](Graph&, const std::vector<Tensor>& in) {
    return nn::project_categorical(in[0], in[1], in[2], kSupport);
  };
  c.reference = projected;
  check_op(c);
}

TEST_CASE("the cross-entropy of distributions, and their expected value, under every layout") {
  OpCase c;
  c.name = "categorical_cross_entropy";
  c.inputs = {{"logits", kRows}, {"target", kRows}};
  c.build = [](Graph&, const std::vector<Tensor>& in) {
    return nn::categorical_cross_entropy(in[0], in[1], kSupport);
  };
  c.reference = [](const Values& values) {
    std::vector<double> losses;
    for (int row = 0; row < 4; ++row) {
      double sum = 0, loss = 0;
      for (int i = 0; i < 7; ++i) sum += std::exp(values.at("logits")[at(kRows, {row, i})]);
      for (int i = 0; i < 7; ++i)
        loss -= values.at("target")[at(kRows, {row, i})] *
                (values.at("logits")[at(kRows, {row, i})] - std::log(sum));
      losses.push_back(loss);
    }
    return losses;
  };
  check_op(c);

  c.name = "expectation";
  c.inputs = {{"p", kRows}};
  c.build = [](Graph&, const std::vector<Tensor>& in) { return nn::expectation(in[0], kSupport); };
  c.reference = [](const Values& values) {
    std::vector<double> means(4, 0);
    for (int row = 0; row < 4; ++row)
      for (int i = 0; i < 7; ++i)
        means[static_cast<std::size_t>(row)] +=
            values.at("p")[at(kRows, {row, i})] * (-1.5 + i * 3.5 / 6);
    return means;
  };
  check_op(c);
}

TEST_CASE("16-bit distributions keep mass and mean though the atoms are no 16-bit numbers") {
  VariableSet variables;
  Graph graph("op", variables);
  const nn::Support support{101, 0, 1000, "atom"};
  const Shape rows{{"batch", 1}};
  const Tensor p =
      ops::cast(graph.input("p", {{{"batch", 1}, {"atom", 101}}, DType::f32}), DType::bf16);
  const Tensor reward = ops::cast(graph.input("r", {rows, DType::f32}), DType::bf16);
  const Tensor discount = ops::cast(graph.input("d", {rows, DType::f32}), DType::bf16);
  const Tensor moved = nn::project_categorical(p, reward, discount, support);
  graph.fetch("mass", ops::reduce_sum(moved, rows, 1, DType::f32));
  graph.fetch("mean", ops::cast(nn::expectation(moved, support), DType::f32));
  SimulatedRun run(variables, {&graph}, {});
  std::vector<double> at_530(101, 0.0);
  at_530[53] = 1;
  run.run("op", {{"p", at_530}, {"r", {0.0}}, {"d", {1.0}}});
  CHECK(run.fetch("op", "mass")[0] == Approx(1).epsilon(1e-4));
  CHECK(run.fetch("op", "mean")[0] == Approx(530).epsilon(1e-4));
}

TEST_CASE("a support has two atoms at least, and some width") {
  CHECK_THROWS_AS((nn::Support{1, 0, 1, "atom"}.validate("model.atoms")), UserError);
  CHECK_THROWS_AS((nn::Support{3, 1, 1, "atom"}.validate("model.atoms")), UserError);
  CHECK_NOTHROW(kSupport.validate("model.atoms"));
}
