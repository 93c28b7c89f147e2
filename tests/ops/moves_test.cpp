// SPDX-License-Identifier: BSD-3-Clause
// Operations that put several tensors together or take one apart, along any dim, cut or not.
#include "support/catch.hpp"
#include "support/op_case.hpp"
#include "tessera/base/error.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/reduce.hpp"
#include "tessera/ops/shape_ops.hpp"
#include "tessera/plan/report.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

const Shape kFirst{{"n", 5}, {"m", 3}}, kSecond{{"n", 2}, {"m", 3}}, kThird{{"n", 1}, {"m", 3}};

std::vector<double> joined(const Values& values) {
  std::vector<double> all;
  for (const char* name : {"x", "y", "z"})
    all.insert(all.end(), values.at(name).begin(), values.at(name).end());
  return all;
}

}  // namespace

TEST_CASE("concat along any dim, cut or not, of uneven sizes") {
  OpCase c;
  c.name = "concat";
  c.inputs = {{"x", kFirst}, {"y", kSecond}, {"z", kThird}};
  c.build = [](Graph&, const std::vector<Tensor>& in) { return ops::concat(in, "n"); };
  c.reference = joined;
  check_op(c);

  c.name = "concat of the inner dim";
  c.inputs = {{"x", kFirst}, {"y", Shape{{"n", 5}, {"m", 2}}}};
  c.build = [](Graph&, const std::vector<Tensor>& in) { return ops::concat(in, "m"); };
  c.reference = [](const Values& values) {
    std::vector<double> y;
    for (std::size_t n = 0; n < 5; ++n)
      for (std::size_t m = 0; m < 5; ++m)
        y.push_back(m < 3 ? values.at("x")[3 * n + m] : values.at("y")[2 * n + m - 3]);
    return y;
  };
  check_op(c);
}

TEST_CASE("split gives stretches; what nothing uses has no slope") {
  OpCase c;
  c.name = "split";
  c.inputs = {{"x", Shape{{"n", 8}, {"m", 3}}}};
  c.build = [](Graph&, const std::vector<Tensor>& in) {
    const auto parts = ops::split(in[0], "n", {3, 2, 3});
    return ops::multiply(ops::square(parts[0]), parts[2]);
  };
  c.reference = [](const Values& values) {
    const auto& x = values.at("x");
    std::vector<double> y;
    for (std::size_t i = 0; i < 9; ++i) y.push_back(x[i] * x[i] * x[15 + i]);
    return y;
  };
  check_op(c);
}

TEST_CASE("stack and unstack at any place") {
  OpCase c;
  c.name = "stack";
  c.inputs = {{"x", kSecond}, {"y", kSecond}, {"z", kSecond}};
  for (int place : {0, 1, 2}) {
    c.build = [=](Graph&, const std::vector<Tensor>& in) { return ops::stack(in, "k", place); };
    c.reference = [=](const Values& values) {
      const Shape result = place == 0   ? Shape{{"k", 3}, {"n", 2}, {"m", 3}}
                           : place == 1 ? Shape{{"n", 2}, {"k", 3}, {"m", 3}}
                                        : Shape{{"n", 2}, {"m", 3}, {"k", 3}};
      std::vector<double> y(18);
      const char* names[] = {"x", "y", "z"};
      for (std::int64_t k = 0; k < 3; ++k)
        for (std::int64_t n = 0; n < 2; ++n)
          for (std::int64_t m = 0; m < 3; ++m) {
            const std::size_t to = place == 0   ? at(result, {k, n, m})
                                   : place == 1 ? at(result, {n, k, m})
                                                : at(result, {n, m, k});
            y[to] = values.at(names[k])[at(kSecond, {n, m})];
          }
      return y;
    };
    check_op(c);
  }
  OpCase u;
  u.name = "unstack";
  u.inputs = {{"x", Shape{{"n", 4}, {"k", 2}, {"m", 3}}}};
  u.build = [](Graph&, const std::vector<Tensor>& in) {
    const auto rows = ops::unstack(in[0], "k");
    return ops::multiply(rows[0], rows[1]);
  };
  u.reference = [](const Values& values) {
    std::vector<double> y;
    for (std::size_t n = 0; n < 4; ++n)
      for (std::size_t m = 0; m < 3; ++m)
        y.push_back(values.at("x")[6 * n + m] * values.at("x")[6 * n + 3 + m]);
    return y;
  };
  check_op(u);
}

TEST_CASE("merging and splitting dims of uneven borders") {
  const auto same = [](const Values& values) { return values.at("x"); };
  for (const auto& [from, to] :
       {std::pair<Shape, Shape>{{{"a", 5}, {"b", 3}}, {{"n", 15}}},
        {{{"n", 15}}, {{"a", 5}, {"b", 3}}},
        {{{"a", 5}, {"b", 6}}, {{"c", 3}, {"d", 10}}},
        {{{"a", 3}, {"b", 5}, {"c", 2}, {"d", 7}}, {{"n", 15}, {"m", 14}}},
        {{{"n", 6}, {"m", 10}}, {{"a", 2}, {"b", 3}, {"c", 5}, {"d", 2}}}}) {
    OpCase c;
    c.name = "reshape " + from.to_string() + " to " + to.to_string();
    c.inputs = {{"x", from}};
    c.build = [to = to](Graph&, const std::vector<Tensor>& in) { return ops::reshape(in[0], to); };
    c.reference = same;
    check_op(c);
  }
}

TEST_CASE("a merge of uneven borders moves only what crosses them") {
  // Tiles of [a:7, b:4] on 4 ranks begin at rows 0, 1, 3, 5; of n:28 at 0, 7, 14, 21.
  for (const std::int64_t rows : {7, 8}) {
    VariableSet variables;
    Graph graph("op", variables);
    const Tensor x = graph.input("x", {{{"a", rows}, {"b", 4}}, DType::f64});
    graph.fetch("y", ops::reduce_sum(ops::square(ops::reshape(x, {{"n", 4 * rows}})), Shape{}));
    plan::PlanOptions options;
    options.mesh = MeshShape::parse("p:4", 0);
    options.layout = Layout::parse("a:p, n:p");
    const auto program = plan::compile(variables, {&graph}, options);
    const auto found = plan::collectives_of(program, program.sections[0]);
    if (rows == 8) {
      CHECK(found.empty());
      continue;
    }
    REQUIRE(found.size() == 1);
    CHECK(found[0].op == program::CollectiveKind::neighbour_exchange);
    CHECK(found[0].count == 1);
    CHECK(found[0].bytes_all_ranks == 8 * (3 + 2 + 1));
  }
}
