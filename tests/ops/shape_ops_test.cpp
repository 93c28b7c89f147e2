// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/ops/shape_ops.hpp"

#include "support/catch.hpp"
#include "support/op_case.hpp"
#include "tessera/base/error.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/reduce.hpp"
#include "tessera/plan/report.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

const Shape kShape{{"n", 6}, {"m", 4}};

OpCase make_case(const std::string& name, std::function<Tensor(Tensor)> build,
                 std::function<std::vector<double>(const std::vector<double>&)> reference) {
  OpCase c;
  c.name = name;
  c.inputs = {{"x", kShape}};
  c.build = [build](Graph&, const std::vector<Tensor>& in) { return build(in[0]); };
  c.reference = [reference](const Values& values) { return reference(values.at("x")); };
  return c;
}

std::vector<double> same(const std::vector<double>& x) {
  return x;
}

}  // namespace

TEST_CASE("rename moves a tensor where the rules place the two names differently") {
  check_op(make_case(
      "rename", [](Tensor x) { return ops::rename(x, "n", "k"); }, same));
  check_op(make_case(
      "rename there and back",
      [](Tensor x) { return ops::rename(ops::square(ops::rename(x, "n", "k")), "k", "n"); },
      [](const std::vector<double>& x) {
        std::vector<double> y;
        for (double value : x) y.push_back(value * value);
        return y;
      }));
}

TEST_CASE("reshape merges and splits dims, cut or whole") {
  check_op(make_case(
      "merge",
      [](Tensor x) {
        return ops::reshape(x, {{"k", 24}});
      },
      same));
  check_op(make_case(
      "split",
      [](Tensor x) {
        return ops::reshape(x, {{"p", 2}, {"q", 3}, {"m", 4}});
      },
      same));
  check_op(make_case(
      "mix",
      [](Tensor x) {
        return ops::reshape(x, {{"one", 1}, {"p", 8}, {"q", 3}});
      },
      same));
}

TEST_CASE("slice and pad") {
  check_op(make_case(
      "slice", [](Tensor x) { return ops::slice(x, "n", 1, 3); },
      [](const std::vector<double>& x) {
        return std::vector<double>(x.begin() + 4, x.begin() + 16);
      }));
  check_op(make_case(
      "slice of the inner dim", [](Tensor x) { return ops::slice(x, "m", 2, 1); },
      [](const std::vector<double>& x) {
        std::vector<double> y;
        for (std::size_t n = 0; n < 6; ++n) y.push_back(x[4 * n + 2]);
        return y;
      }));
  check_op(make_case(
      "pad", [](Tensor x) { return ops::pad(x, "n", 2, 9); },
      [](const std::vector<double>& x) {
        std::vector<double> y(36);
        std::copy(x.begin(), x.end(), y.begin() + 8);
        return y;
      }));
}

TEST_CASE("slices and pads with a step") {
  check_op(make_case(
      "every second row", [](Tensor x) { return ops::slice(x, "n", 1, 3, 2); },
      [](const std::vector<double>& x) {
        std::vector<double> y;
        for (std::size_t n : {1, 3, 5})
          for (std::size_t m = 0; m < 4; ++m) y.push_back(x[4 * n + m]);
        return y;
      }));
  check_op(make_case(
      "rows apart", [](Tensor x) { return ops::pad(x, "m", 1, 12, 3); },
      [](const std::vector<double>& x) {
        std::vector<double> y(72);
        for (std::size_t n = 0; n < 6; ++n)
          for (std::size_t m = 0; m < 4; ++m) y[12 * n + 1 + 3 * m] = x[4 * n + m];
        return y;
      }));
}

TEST_CASE("shift, wrapped or not, by less or more than a tile or the dim") {
  for (int offset : {0, 1, -1, 4, -5, 6, 9}) {
    for (bool wrap : {false, true}) {
      check_op(make_case(
          concat("shift by ", offset, wrap ? " wrapped" : ""),
          [=](Tensor x) { return ops::shift(x, "n", offset, wrap); },
          [=](const std::vector<double>& x) {
            std::vector<double> y(24);
            for (int n = 0; n < 6; ++n)
              for (int m = 0; m < 4; ++m) {
                const int to = wrap ? ((n + offset) % 6 + 6) % 6 : n + offset;
                if (to >= 0 && to < 6)
                  y[static_cast<std::size_t>(4 * to + m)] = x[static_cast<std::size_t>(4 * n + m)];
              }
            return y;
          }));
    }
  }
}

TEST_CASE("a shift along a cut dim sends only what leaves a tile") {
  VariableSet variables;
  Graph graph("op", variables);
  graph.fetch("y", ops::reduce_sum(
                       ops::square(ops::shift(graph.input("x", {{{"n", 64}, {"m", 4}}, DType::f64}),
                                              "n", 1, false)),
                       Shape{}));
  plan::PlanOptions options;
  options.mesh = MeshShape::parse("a:4", 0);
  options.layout = Layout::parse("n:a");
  const auto program = plan::compile(variables, {&graph}, options);
  const auto rows = plan::collectives_of(program, program.sections[0]);
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].op == program::CollectiveKind::neighbour_exchange);
  CHECK(rows[0].count == 1);
  CHECK(rows[0].bytes == 4 * 8);
  CHECK(rows[0].bytes_all_ranks == 3 * 4 * 8);
  CHECK(rows[0].messages == 1);
}

TEST_CASE("select takes the index of a feed") {
  VariableSet variables;
  Graph graph("op", variables);
  graph.fetch("y", ops::select(graph.input("x", {kShape, DType::f64}), "n", "position"));
  std::vector<double> x(24);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(i);
  for (const char* rules : {"", "n:a", "m:a"}) {
    plan::PlanOptions options;
    options.mesh = MeshShape::parse("a:3", 0);
    options.layout = Layout::parse(rules);
    SimulatedRun run(variables, {&graph}, options);
    kernels::Feeds feeds;
    feeds.values["position"] = 4;
    run.run("op", {{"x", x}}, feeds);
    CHECK(run.fetch("op", "y") == std::vector<double>{16, 17, 18, 19});
  }
}
