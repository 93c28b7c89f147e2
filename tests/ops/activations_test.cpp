// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/ops/activations.hpp"

#include <cmath>

#include "support/catch.hpp"
#include "support/op_case.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/reduce.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

void check_activation(const std::string& name, Tensor (*op)(Tensor), double (*f)(double)) {
  OpCase c;
  c.name = name;
  c.inputs = {{"x", {{"n", 5}, {"m", 3}}}};
  c.build = [=](Graph&, const std::vector<Tensor>& in) { return op(in[0]); };
  c.reference = [=](const Values& values) {
    std::vector<double> y;
    for (double x : values.at("x")) y.push_back(f(x));
    return y;
  };
  check_op(c);
}

}  // namespace

TEST_CASE("further activations") {
  check_activation(
      "leaky_relu", [](Tensor x) { return ops::leaky_relu(x); },
      [](double x) { return x > 0 ? x : 0.2 * x; });
  check_activation(
      "elu", [](Tensor x) { return ops::elu(x, 1.5); },
      [](double x) { return x > 0 ? x : 1.5 * std::expm1(x); });
  check_activation("selu", ops::selu, [](double x) {
    return 1.05070098735548 * (x > 0 ? x : 1.673263242354377 * std::expm1(x));
  });
  check_activation("softplus", ops::softplus, [](double x) { return std::log1p(std::exp(x)); });
}

TEST_CASE("activations far from zero and near it, with finite gradients") {
  VariableSet variables;
  Graph graph("op", variables);
  const std::vector<double> x{-800, -50, -1e-12, 1e-12, 50, 800};
  const Tensor in = graph.input("x", {Shape{{"n", 6}}, DType::f64});
  const Tensor unit = ops::elu(in), plus = ops::softplus(in);
  graph.fetch("elu", unit);
  graph.fetch("softplus", plus);
  graph.fetch("slope", gradients(ops::reduce_sum(ops::add(unit, plus), Shape{}), {in})[0]);
  SimulatedRun run(variables, {&graph}, {});
  run.run("op", {{"x", x}});
  const auto slope = run.fetch("op", "slope");
  const auto elu = run.fetch("op", "elu"), softplus = run.fetch("op", "softplus");
  for (std::size_t i = 0; i < x.size(); ++i) {
    INFO(x[i]);
    CHECK(elu[i] == Approx(x[i] > 0 ? x[i] : std::expm1(x[i])).epsilon(1e-12));
    const double sigmoid = 1 / (1 + std::exp(-x[i]));
    const double expected = (x[i] > 0 ? 1 : std::exp(x[i])) + sigmoid;
    CHECK(slope[i] == Approx(expected).epsilon(1e-12).margin(1e-15));
    CHECK(softplus[i] == Approx(x[i] > 100 ? x[i] : std::log1p(std::exp(x[i]))).epsilon(1e-12));
  }
}
