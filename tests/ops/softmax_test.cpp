// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/ops/softmax.hpp"

#include <cmath>
#include <limits>

#include "support/catch.hpp"
#include "support/op_case.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/reduce.hpp"
#include "tessera/plan/report.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

const Shape kShape{{"n", 5}, {"m", 7}, {"k", 2}};

/// log sum exp over m for [n, k].
double log_sum(const std::vector<double>& x, int n, int k) {
  double sum = 0;
  for (int m = 0; m < 7; ++m) sum += std::exp(x[at(kShape, {n, m, k})]);
  return std::log(sum);
}

void check_softmax(const std::string& name, Tensor (*op)(Tensor, const std::string&),
                   double (*f)(double)) {
  OpCase c;
  c.name = name;
  c.inputs = {{"x", kShape}};
  c.build = [=](Graph&, const std::vector<Tensor>& in) { return op(in[0], "m"); };
  c.reference = [=](const Values& values) {
    const auto& x = values.at("x");
    std::vector<double> y;
    for (int n = 0; n < 5; ++n)
      for (int m = 0; m < 7; ++m)
        for (int k = 0; k < 2; ++k) y.push_back(f(x[at(kShape, {n, m, k})] - log_sum(x, n, k)));
    return y;
  };
  check_op(c);
}

}  // namespace

TEST_CASE("softmax and its logarithm over a dim in the middle, whole or cut") {
  check_softmax("softmax", ops::softmax, [](double x) { return std::exp(x); });
  check_softmax("log_softmax", ops::log_softmax, [](double x) { return x; });

  OpCase c;
  c.name = "logsumexp";
  c.inputs = {{"x", kShape}};
  c.build = [](Graph&, const std::vector<Tensor>& in) {
    return ops::reduce_logsumexp(in[0], {{"k", 2}, {"n", 5}});
  };
  c.reference = [](const Values& values) {
    std::vector<double> y;
    for (int k = 0; k < 2; ++k)
      for (int n = 0; n < 5; ++n) y.push_back(log_sum(values.at("x"), n, k));
    return y;
  };
  check_op(c);
}

TEST_CASE("softmax over a cut dim reduces maxima and sums and gathers nothing") {
  VariableSet variables;
  Graph graph("op", variables);
  const Tensor x = graph.input("x", {kShape, DType::f32});
  const Tensor y = ops::softmax(x, "m");
  const Tensor loss = ops::reduce_sum(ops::square(y), Shape{});
  graph.fetch("loss", loss);
  const Tensor slope = gradients(loss, {x})[0];
  graph.fetch("slope", ops::reduce_sum(ops::square(slope), Shape{}));
  plan::PlanOptions options;
  options.mesh = MeshShape::parse("a:2", 0);
  options.layout = Layout::parse("m:a");
  const auto program = plan::compile(variables, {&graph}, options);
  const auto rows = plan::collectives_of(program, program.section("op"));
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].op == program::CollectiveKind::all_reduce);
  // Maxima, sums, and the gradient's sums: 10 numbers of 4 bytes each.
  CHECK(rows[0].count == 3);
  CHECK(rows[0].bytes == 3 * 10 * 4);
}

TEST_CASE("logsumexp of large numbers and of infinities, cut as well") {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  VariableSet variables;
  Graph graph("op", variables);
  const Tensor x = graph.input("x", {Shape{{"row", 4}, {"m", 2}}, DType::f64});
  graph.fetch("y", ops::reduce_logsumexp(x, {{"row", 4}}));
  for (const char* rules : {"", "m:a", "row:a"}) {
    plan::PlanOptions options;
    options.mesh = MeshShape::parse("a:3", 0);
    options.layout = Layout::parse(rules);
    SimulatedRun run(variables, {&graph}, options);
    run.run("op", {{"x", {1000, 1000, -infinity, -infinity, 3, -infinity, infinity, 0}}});
    const auto y = run.fetch("op", "y");
    CHECK(y[0] == Approx(1000 + std::log(2.0)));
    CHECK(y[1] == -infinity);
    CHECK(y[2] == Approx(3));
    CHECK(y[3] == infinity);
  }
}
