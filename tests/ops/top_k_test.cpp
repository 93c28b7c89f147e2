// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/ops/top_k.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "support/catch.hpp"
#include "support/op_case.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/plan/report.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

const Shape kShape{{"n", 3}, {"c", 7}, {"m", 2}};

/// Indices along c at (n, m), largest element first, equal ones by index.
std::vector<int> order(const std::vector<double>& x, int n, int m) {
  std::vector<int> indices(7);
  std::iota(indices.begin(), indices.end(), 0);
  std::stable_sort(indices.begin(), indices.end(), [&](int a, int b) {
    return x[at(kShape, {n, a, m})] > x[at(kShape, {n, b, m})];
  });
  return indices;
}

std::vector<double> reference(const std::vector<double>& x, int k, bool values) {
  std::vector<double> y;
  for (int n = 0; n < 3; ++n)
    for (int m = 0; m < 2; ++m) {
      const auto indices = order(x, n, m);
      for (int i = 0; i < k; ++i)
        y.push_back(values ? x[at(kShape, {n, indices[static_cast<std::size_t>(i)], m})]
                           : indices[static_cast<std::size_t>(i)]);
    }
  return y;
}

}  // namespace

TEST_CASE("the largest elements, with gradients for those picked") {
  OpCase c;
  c.name = "top_k values";
  c.inputs = {{"x", kShape}};
  c.build = [](Graph&, const std::vector<Tensor>& in) {
    return ops::top_k(in[0], "c", {"k", 5}).values;
  };
  c.reference = [](const Values& v) { return reference(v.at("x"), 5, true); };
  check_op(c);

  c.name = "top_k along its own name";
  c.build = [](Graph&, const std::vector<Tensor>& in) {
    return ops::top_k(in[0], "c", {"c", 2}).values;
  };
  c.reference = [](const Values& v) { return reference(v.at("x"), 2, true); };
  check_op(c);
}

TEST_CASE("their indices, of equal elements the lower one first") {
  OpCase c;
  c.name = "top_k indices";
  c.inputs = {{"x", kShape, OpInput::Fill::ids, 3}};
  c.differentiable = false;
  c.partial = false;
  c.build = [](Graph&, const std::vector<Tensor>& in) {
    return ops::cast(ops::top_k(ops::cast(in[0], DType::f64), "c", {"k", 7}).indices, DType::f64);
  };
  c.reference = [](const Values& v) { return reference(v.at("x"), 7, false); };
  check_op(c);

  c.name = "argmax";
  c.build = [](Graph&, const std::vector<Tensor>& in) {
    return ops::cast(ops::argmax(ops::cast(in[0], DType::f32), "c"), DType::f64);
  };
  c.reference = [](const Values& v) { return reference(v.at("x"), 1, false); };
  check_op(c);
}

TEST_CASE("NaN is largest, and of infinities the lower index counts") {
  constexpr double infinity = std::numeric_limits<double>::infinity(), nan = std::nan("");
  VariableSet variables;
  Graph graph("op", variables);
  const Tensor x = graph.input("x", {{{"row", 3}, {"c", 4}}, DType::f64});
  graph.fetch("y", ops::cast(ops::argmax(x, "c"), DType::f64));
  for (const char* rules : {"", "c:a", "row:a"}) {
    plan::PlanOptions options;
    options.mesh = MeshShape::parse("a:8", 0);
    options.layout = Layout::parse(rules);
    SimulatedRun run(variables, {&graph}, options);
    run.run("op", {{"x",
                    {1, nan, infinity, nan, -infinity, -infinity, -infinity, -infinity, 0, 1,
                     infinity, infinity}}});
    CHECK(run.fetch("op", "y") == std::vector<double>{1, 0, 2});
  }
}

TEST_CASE("ranks exchange candidates, not the tensor") {
  VariableSet variables;
  Graph graph("op", variables);
  const Tensor x = graph.input("x", {{{"row", 3}, {"c", 1000}}, DType::f32});
  graph.fetch("y", ops::argmax(x, "c"));
  plan::PlanOptions options;
  options.mesh = MeshShape::parse("a:4", 0);
  options.layout = Layout::parse("c:a");
  const auto program = plan::compile(variables, {&graph}, options);
  const auto rows = plan::collectives_of(program, program.section("op"));
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].op == program::CollectiveKind::all_gather);
  CHECK(rows[0].count == 1);
  CHECK(rows[0].bytes == 4 * 3 * 16);
}
