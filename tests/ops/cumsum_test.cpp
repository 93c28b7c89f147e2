// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/ops/cumsum.hpp"

#include "support/catch.hpp"
#include "support/op_case.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/plan/report.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

const Shape kShape{{"n", 3}, {"t", 7}, {"m", 2}};

std::vector<double> reference(const std::vector<double>& x, ops::CumsumOptions options) {
  std::vector<double> y(x.size());
  for (int n = 0; n < 3; ++n)
    for (int m = 0; m < 2; ++m)
      for (int t = 0; t < 7; ++t)
        for (int s = 0; s < 7; ++s) {
          const bool counts = options.reverse ? s > t : s < t;
          if (counts || (s == t && !options.exclusive))
            y[at(kShape, {n, t, m})] += x[at(kShape, {n, s, m})];
        }
  return y;
}

}  // namespace

TEST_CASE("running sums both ways, with and without the element itself") {
  for (const bool exclusive : {false, true})
    for (const bool reverse : {false, true}) {
      const ops::CumsumOptions options{.exclusive = exclusive, .reverse = reverse};
      OpCase c;
      c.name =
          std::string("cumsum") + (exclusive ? " exclusive" : "") + (reverse ? " reverse" : "");
      c.inputs = {{"x", kShape}};
      c.build = [=](Graph&, const std::vector<Tensor>& in) {
        return ops::cumsum(in[0], "t", options);
      };
      c.reference = [=](const Values& v) { return reference(v.at("x"), options); };
      check_op(c);
    }
}

TEST_CASE("running sums of whole numbers") {
  OpCase c;
  c.name = "cumsum of i32";
  c.inputs = {{"x", kShape, OpInput::Fill::ids, 9}};
  c.differentiable = false;
  c.build = [](Graph&, const std::vector<Tensor>& in) {
    return ops::cast(ops::cumsum(in[0], "t"), DType::f64);
  };
  c.reference = [](const Values& v) { return reference(v.at("x"), {}); };
  check_op(c);
}

TEST_CASE("ranks exchange totals, not the tensor") {
  VariableSet variables;
  Graph graph("op", variables);
  const Tensor x = graph.input("x", {{{"t", 1000}, {"m", 3}}, DType::f32});
  graph.fetch("y", ops::cumsum(x, "t"));
  plan::PlanOptions options;
  options.mesh = MeshShape::parse("a:4", 0);
  options.layout = Layout::parse("t:a");
  const auto program = plan::compile(variables, {&graph}, options);
  std::int64_t bytes = 0, calls = 0;
  for (const auto& row : plan::collectives_of(program, program.section("op"))) {
    CHECK(row.op == program::CollectiveKind::all_gather);
    bytes += row.bytes;
    calls += row.count;
  }
  CHECK(calls == 2);  // the totals, and the fetched result
  CHECK(bytes == 4 * 3 * 8 + 1000 * 3 * 4);
}
