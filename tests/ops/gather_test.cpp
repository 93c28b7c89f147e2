// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/ops/gather.hpp"

#include "support/catch.hpp"
#include "support/op_case.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/reduce.hpp"
#include "tessera/plan/report.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

const Shape kTable{{"n", 3}, {"row", 5}, {"m", 2}};
const Shape kIds{{"pick", 4}, {"n", 3}};

/// The element of kTable at (n, id, m), or 0 outside.
double element(const Values& values, int n, double id, int m) {
  const auto row = static_cast<std::int64_t>(id);
  return row < 0 || row >= 5 ? 0 : values.at("x")[at(kTable, {n, row, m})];
}

}  // namespace

TEST_CASE("gather along a dim in the middle, ids sharing another dim, some outside") {
  OpCase c;
  c.name = "gather";
  // 7 ids for 5 rows: those beyond give zeros.
  c.inputs = {{"x", kTable}, {"ids", kIds, OpInput::Fill::ids, 7}};
  c.build = [](Graph&, const std::vector<Tensor>& in) { return ops::gather(in[0], in[1], "row"); };
  c.reference = [](const Values& v) {
    std::vector<double> y;
    for (int pick = 0; pick < 4; ++pick)
      for (int n = 0; n < 3; ++n)
        for (int m = 0; m < 2; ++m) y.push_back(element(v, n, v.at("ids")[at(kIds, {pick, n})], m));
    return y;
  };
  check_op(c);
}

TEST_CASE("gather along two dims by one index") {
  OpCase c;
  c.name = "gather along two dims";
  c.inputs = {{"x", kTable}, {"ids", Shape{{"pick", 4}}, OpInput::Fill::ids, 12}};
  c.build = [](Graph&, const std::vector<Tensor>& in) {
    return ops::gather(in[0], in[1], std::vector<std::string>{"m", "row"});
  };
  c.reference = [](const Values& v) {
    std::vector<double> y;
    for (double id : v.at("ids"))
      for (int n = 0; n < 3; ++n)
        y.push_back(id >= 10 ? 0
                             : element(v, n, static_cast<int>(id) % 5, static_cast<int>(id) / 5));
    return y;
  };
  check_op(c);
}

TEST_CASE("gather of whole numbers, and by one id") {
  OpCase c;
  c.name = "gather of i32";
  c.inputs = {{"x", {{"row", 5}, {"m", 2}}, OpInput::Fill::ids, 100},
              {"ids", {{"pick", 4}}, OpInput::Fill::ids, 6}};
  c.differentiable = false;
  c.build = [](Graph&, const std::vector<Tensor>& in) {
    return ops::cast(ops::gather(in[0], in[1], "row"), DType::f64);
  };
  c.reference = [](const Values& v) {
    std::vector<double> y;
    for (double id : v.at("ids"))
      for (int m = 0; m < 2; ++m)
        y.push_back(id < 5 ? v.at("x")[static_cast<std::size_t>(2 * id + m)] : 0);
    return y;
  };
  check_op(c);

  c.name = "reduce_first";
  c.inputs = {{"x", kTable}};
  c.differentiable = true;
  c.build = [](Graph&, const std::vector<Tensor>& in) { return ops::reduce_first(in[0], "row"); };
  c.reference = [](const Values& v) {
    std::vector<double> y;
    for (int n = 0; n < 3; ++n)
      for (int m = 0; m < 2; ++m) y.push_back(element(v, n, 0, m));
    return y;
  };
  check_op(c);
}

TEST_CASE("scatter_add sums equal ids and dims that the result lacks") {
  const Shape values{{"pick", 4}, {"n", 3}, {"m", 2}};
  OpCase c;
  c.name = "scatter_add";
  c.inputs = {{"v", values}, {"ids", kIds, OpInput::Fill::ids, 7}};
  c.build = [](Graph&, const std::vector<Tensor>& in) {
    return ops::scatter_add(in[0], in[1], "row", kTable);
  };
  c.reference = [=](const Values& v) {
    std::vector<double> y(30);
    for (int pick = 0; pick < 4; ++pick)
      for (int n = 0; n < 3; ++n)
        for (int m = 0; m < 2; ++m) {
          const double id = v.at("ids")[at(kIds, {pick, n})];
          if (id >= 5) continue;
          y[at(kTable, {n, static_cast<std::int64_t>(id), m})] +=
              v.at("v")[at(values, {pick, n, m})];
        }
    return y;
  };
  check_op(c);
}

TEST_CASE("one_hot is made in place under every layout") {
  OpCase c;
  c.name = "one_hot";
  c.inputs = {{"ids", kIds, OpInput::Fill::ids, 6}};
  c.differentiable = false;
  c.build = [](Graph&, const std::vector<Tensor>& in) {
    return ops::one_hot(in[0], {"class", 5}, DType::f64, 3, -1);
  };
  c.reference = [](const Values& v) {
    std::vector<double> y;
    for (double id : v.at("ids"))
      for (int k = 0; k < 5; ++k) y.push_back(id == k ? 3 : -1);
    return y;
  };
  check_op(c);
}

TEST_CASE("a lookup in a cut dim reduces its result and gathers nothing") {
  VariableSet variables;
  Graph graph("op", variables);
  const Tensor x = graph.input("x", {{{"row", 1000}, {"m", 2}}, DType::f32});
  const Tensor ids = graph.input("ids", {Shape{{"pick", 5}}, DType::i32});
  const Tensor y = ops::gather(x, ids, "row");
  graph.fetch("y", y);
  graph.fetch("hot",
              ops::reduce_sum(ops::one_hot(ids, {"row", 1000}, DType::f32), {{"row", 1000}}));
  const Tensor slope = gradients(ops::reduce_sum(ops::exp(y), Shape{}), {x})[0];
  graph.fetch("norm", ops::reduce_sum(ops::square(slope), Shape{}));
  plan::PlanOptions options;
  options.mesh = MeshShape::parse("a:4", 0);
  options.layout = Layout::parse("row:a");
  const auto program = plan::compile(variables, {&graph}, options);
  for (const auto& row : plan::collectives_of(program, program.section("op"))) {
    if (row.op == program::CollectiveKind::all_gather) {
      CHECK(row.count == 1);  // to fetch "hot"
      continue;
    }
    CHECK(row.op == program::CollectiveKind::all_reduce);
    CHECK(row.count == 1);
    CHECK(row.bytes == 5 * 2 * 4);
  }
}
