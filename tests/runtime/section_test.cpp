// SPDX-License-Identifier: BSD-3-Clause
// What a section promises under every layout: operands that are whole where they must be, and
// variables as they were at its start.
#include <utility>

#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/simulated_run.hpp"
#include "tessera/ops/einsum.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/reduce.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

void check_equal(const std::vector<double>& found, const std::vector<double>& expected) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) CHECK(found[i] == Approx(expected[i]));
}

constexpr std::pair<const char*, const char*> kMeshes[] = {
    {"x:2", "k:x"}, {"x:3", "k:x"}, {"x:2,y:2", "k:x,n:y"}};

}  // namespace

TEST_CASE("a partial sum that is both factors of a product is reduced first") {
  VariableSet variables;
  Graph graph("section", variables);
  const Shape out{{"n", 3}, {"m", 2}};
  const Tensor x = graph.input("x", {Shape{{"n", 3}, {"k", 5}}, DType::f64});
  const Tensor w = graph.input("w", {Shape{{"k", 5}, {"m", 2}}, DType::f64});
  const auto product = [&] { return ops::einsum({x, w}, out); };
  const Tensor y = product(), z = product(), u = product();
  graph.fetch("square", ops::multiply(y, y));
  graph.fetch("norm", ops::einsum({z, z}, Shape{}));
  graph.fetch("twice", ops::add(u, u));
  const Values inputs{{"x", waves(15)}, {"w", waves(10)}};
  SimulatedRun one(variables, {&graph}, {});
  one.run("section", inputs);
  for (const auto& [mesh, rules] : kMeshes) {
    INFO(mesh << " " << rules);
    SimulatedRun run(variables, {&graph}, layout(mesh, rules));
    run.run("section", inputs);
    for (const char* name : {"square", "norm", "twice"})
      check_equal(run.fetch("section", name), one.fetch("section", name));
  }
}

TEST_CASE("a number of 16 bits joins a partial sum") {
  VariableSet variables;
  Graph graph("section", variables);
  const TensorSpec spec{Shape{{"k", 5}}, DType::bf16};
  const Tensor dot = ops::einsum({graph.input("x", spec), graph.input("w", spec)}, Shape{});
  graph.fetch("sum", ops::add(dot, ops::fill(graph, 1.5, {Shape{}, DType::bf16})));
  for (const auto& [mesh, rules] : {std::pair("", ""), kMeshes[0], kMeshes[1]}) {
    INFO(mesh << " " << rules);
    SimulatedRun run(variables, {&graph}, layout(mesh, rules));
    run.run("section", {{"x", {1, 2, 3, 4, 5}}, {"w", {1, 1, 1, 1, 1}}});
    CHECK(run.fetch("section", "sum") == std::vector<double>{16.5});
  }
}

TEST_CASE("a maximum over a cut dim is fetched as one") {
  VariableSet variables;
  Graph graph("section", variables);
  const Tensor x = graph.input("x", {Shape{{"k", 5}}, DType::f64});
  graph.fetch("max", ops::reduce_max(x, Shape{}));
  for (const auto& [mesh, rules] : {std::pair("", ""), kMeshes[0], kMeshes[1]}) {
    INFO(mesh << " " << rules);
    SimulatedRun run(variables, {&graph}, layout(mesh, rules));
    run.run("section", {{"x", {1, 2, 9, 4, 5}}});
    CHECK(run.fetch("section", "max") == std::vector<double>{9});
  }
}

TEST_CASE("variables are read as they were when the section started") {
  VariableSet variables;
  Graph graph("section", variables);
  const auto state = [&](const char* name) {
    return graph.variable(
        {name, {Shape{{"k", 5}}, DType::f64}, Variable::Kind::state, {}, true, true, ""});
  };
  const Tensor a = state("a"), b = state("b"), c = state("c"), d = state("d");
  graph.assign("a", ops::add(a, 1.0));
  graph.assign("b", a);
  graph.assign("c", d);
  graph.assign("d", c);
  graph.fetch("before", a);
  graph.fetch("b", b);
  for (const auto& [mesh, rules] : {std::pair("", ""), kMeshes[0], kMeshes[1]}) {
    INFO(mesh << " " << rules);
    SimulatedRun run(variables, {&graph}, layout(mesh, rules));
    for (const char* name : {"a", "b", "c", "d"})
      run.set_variable(name, std::vector<double>(5, name[0]));
    run.run("section", {});
    const auto all = [](double value) { return std::vector<double>(5, value); };
    CHECK(run.variable("a") == all('a' + 1));
    CHECK(run.variable("b") == all('a'));
    CHECK(run.variable("c") == all('d'));
    CHECK(run.variable("d") == all('c'));
    CHECK(run.fetch("section", "before") == all('a'));
    CHECK(run.fetch("section", "b") == all('b'));
  }
}

TEST_CASE("the gradient of a sum of weights is reduced once, whatever the bucket") {
  VariableSet variables;
  Graph graph("micro", variables);
  const TensorSpec spec{Shape{{"n", 3}, {"m", 2}}, DType::f64};
  const auto weight = [&](const char* name) {
    return graph.variable({name, spec, Variable::Kind::weight, {}, true, true, ""});
  };
  const Tensor x = graph.input("x", {Shape{{"k", 5}, {"n", 3}}, DType::f64});
  const Tensor u = weight("u"), v = weight("v");
  const Tensor y = ops::einsum({x, ops::add(u, v)}, Shape{{"k", 5}, {"m", 2}});
  const auto slopes = gradients(ops::reduce_sum(ops::square(y), Shape{}), {u, v});
  REQUIRE(slopes[0].id() == slopes[1].id());
  for (const char* name : {"u", "v"}) {
    const std::string gradient = std::string("gradient/") + name;
    variables.declare({gradient, spec, Variable::Kind::gradient, {}, true, true, name});
    graph.accumulate(gradient, slopes[0], true);
  }
  const auto found = [&](plan::PlanOptions options) {
    options.overlap = true;
    options.reducing = {"micro"};
    options.flight_bytes = 1;
    SimulatedRun run(variables, {&graph}, options);
    for (const char* name : {"u", "v"}) run.set_variable(name, waves(6));
    run.run("micro", {{"x", waves(15)}});
    auto both = run.variable("gradient/u");
    for (double value : run.variable("gradient/v")) both.push_back(value);
    return both;
  };
  const auto expected = found({});
  for (const auto& [mesh, rules] : {kMeshes[0], kMeshes[1]}) {
    INFO(mesh << " " << rules);
    check_equal(found(layout(mesh, rules)), expected);
  }
}
