// SPDX-License-Identifier: BSD-3-Clause
// Collectives of the two-layer perceptron y = relu(x W + bias) V against the closed formulas that
// follow from "Mesh-TensorFlow: Deep Learning for Supercomputers", section on layouts of fully
// connected networks. What the paper calls io are two dims here, io of x and out of y.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "tessera/ops/einsum.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/reduce.hpp"
#include "tessera/ops/shape_ops.hpp"
#include "tessera/plan/planner.hpp"
#include "tessera/plan/report.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

constexpr std::int64_t kBatch = 512, kIo = 256, kHidden = 1024;

struct Perceptron {
  VariableSet variables;
  Graph micro{"micro", variables};
  Graph update{"update", variables};

  explicit Perceptron(bool gradient_of_input) {
    const Tensor x = gradient_of_input
                         ? micro.variable({"x",
                                           {Shape{{"batch", kBatch}, {"io", kIo}}, DType::f32},
                                           Variable::Kind::state,
                                           {},
                                           true,
                                           true,
                                           ""})
                         : micro.input("x", {Shape{{"batch", kBatch}, {"io", kIo}}, DType::f32});
    const auto weight = [&](const std::string& name, Shape shape) {
      return micro.variable(
          {name, {std::move(shape), DType::f32}, Variable::Kind::weight, {}, true, true, ""});
    };
    const Tensor w = weight("w", Shape{{"io", kIo}, {"hidden", kHidden}});
    const Tensor bias = weight("bias", Shape{{"hidden", kHidden}});
    const Tensor v = weight("v", Shape{{"hidden", kHidden}, {"out", kIo}});
    const Tensor h = ops::relu(
        ops::add(ops::einsum({x, w}, Shape{{"batch", kBatch}, {"hidden", kHidden}}), bias));
    const Tensor y = ops::einsum({h, v}, Shape{{"batch", kBatch}, {"out", kIo}});
    const Tensor loss = ops::reduce_sum(ops::multiply(y, y), Shape{});
    std::vector<Tensor> targets{w, bias, v};
    if (gradient_of_input) targets.push_back(x);
    const auto slopes = gradients(loss, targets);
    for (std::size_t i = 0; i < targets.size(); ++i) {
      const std::string name = "gradient/" + targets[i].name();
      variables.declare(
          {name, targets[i].spec(), Variable::Kind::gradient, {}, true, true, targets[i].name()});
      if (targets[i] == x)
        micro.fetch("dx", slopes[i]);
      else
        micro.accumulate(name, slopes[i], true);
    }
    for (int i = 0; i < 3; ++i) {
      const std::string& name = targets[static_cast<std::size_t>(i)].name();
      update.assign(name, ops::subtract(update.read(name), update.read("gradient/" + name)));
    }
  }

  std::vector<program::CollectiveRow> collectives(const std::string& mesh,
                                                  const std::string& rules) {
    const auto program = plan::compile(variables, {&micro, &update}, layout(mesh, rules));
    return plan::report(program, {{"micro", 1}, {"update", 1}}).collectives;
  }

  std::map<std::string, std::int64_t> bytes(const std::string& mesh, const std::string& rules) {
    const MeshShape shape = MeshShape::parse(mesh, 0);
    std::map<std::string, std::int64_t> result;
    for (const auto& row : collectives(mesh, rules)) {
      if (row.op != program::CollectiveKind::all_reduce) continue;
      std::string key = row.section;
      for (int m : row.mesh_dims) key += " " + shape[m].name;
      result[key] += row.bytes;
      result[key + " calls"] += row.count;
    }
    return result;
  }
};

}  // namespace

TEST_CASE("data parallel: only the weights' gradients, in one bucket") {
  auto bytes = Perceptron(false).bytes("all:8", "batch:all");
  CHECK(bytes["update all"] == 4 * (2 * kIo * kHidden + kHidden));
  CHECK(bytes["update all calls"] == 1);
  CHECK(bytes.count("micro all") == 0);
}

TEST_CASE("model parallel: the result, and the input's gradient, whole on all ranks") {
  for (const bool gradient_of_input : {false, true}) {
    auto bytes = Perceptron(gradient_of_input).bytes("all:8", "hidden:all");
    const std::int64_t reduced = gradient_of_input ? 2 : 1;
    CHECK(bytes["micro all"] == reduced * 4 * kBatch * kIo);
    CHECK(bytes["micro all calls"] == reduced);
    CHECK(bytes.count("update all") == 0);
  }
}

TEST_CASE("data and model parallel without the input's gradient") {
  constexpr std::int64_t r = 4, c = 8;
  auto bytes = Perceptron(false).bytes("rows:4,cols:8", "batch:rows,hidden:cols");
  CHECK(bytes["micro cols"] == 4 * (kBatch / r) * kIo);  // y
  CHECK(bytes["micro cols calls"] == 1);
  CHECK(bytes["update rows"] == 4 * (2 * kIo * kHidden / c + kHidden / c));  // dW, dV, dbias
  CHECK(bytes["update rows calls"] == 1);
}

TEST_CASE("with the input's gradient: one more all_reduce over the model dim") {
  constexpr std::int64_t r = 4;
  Perceptron perceptron(true);
  auto bytes = perceptron.bytes("rows:4,cols:8", "batch:rows,hidden:cols");
  // dx is fetched whole: gathered over rows after the reduction, which the rows below leave out.
  CHECK(bytes["micro cols"] == 2 * 4 * (kBatch / r) * kIo);
}

TEST_CASE("no layout moves more than the published formula says") {
  constexpr std::int64_t b = kBatch, io = kIo, h = kHidden;
  struct Row {
    const char* mesh;
    const char* rules;
    std::int64_t elements;  ///< that a rank sends, constant factors and the bias left out
  };
  constexpr Row kTable[] = {
      {"all:8", "batch:all", io * h},
      {"all:8", "hidden:all", b * io},
      {"rows:4,cols:8", "batch:rows,hidden:cols", b / 4 * io + io * h / 8},
      {"rows:4,cols:8", "batch:rows,io:cols,out:cols", b / 4 * h + io * h / 8},
      {"rows:4,cols:8", "hidden:rows,io:cols,out:cols", b * io / 8 + b * h / 4},
      {"planes:2,rows:4,cols:8", "batch:planes,hidden:rows,io:cols,out:cols",
       b * io / (2 * 8) + b * h / (2 * 4) + io * h / (4 * 8)}};
  for (const Row& row : kTable) {
    std::int64_t bytes = 0;
    for (const auto& collective : Perceptron(false).collectives(row.mesh, row.rules))
      bytes += collective.bytes;
    INFO(row.mesh << " under " << row.rules);
    // The factor: activations go forward and their gradients back, and there are two weights.
    CHECK(bytes <= 4 * (2 * row.elements + h));
  }
}

TEST_CASE("batch and io: the hidden layer and its gradient, whole where io is cut") {
  constexpr std::int64_t r = 4, c = 8;
  auto bytes = Perceptron(false).bytes("rows:4,cols:8", "batch:rows,io:cols,out:cols");
  CHECK(bytes["micro cols"] == 2 * 4 * (kBatch / r) * kHidden);
  CHECK(bytes["micro cols calls"] == 2);
  CHECK(bytes.count("micro rows") == 0);
  CHECK(bytes["update rows"] == 4 * 2 * kIo * kHidden / c);  // dW, dV
  CHECK(bytes["update rows calls"] == 1);
  // dbias sums the gradient before that is reduced, so it is partial over both.
  CHECK(bytes["update rows cols"] == 4 * kHidden);
}

TEST_CASE("hidden and io: each activation over the mesh dim that cuts the other") {
  constexpr std::int64_t r = 4, c = 8;
  for (const bool gradient_of_input : {false, true}) {
    auto bytes =
        Perceptron(gradient_of_input).bytes("rows:4,cols:8", "hidden:rows,io:cols,out:cols");
    CHECK(bytes["micro cols"] == 2 * 4 * kBatch * kHidden / r);
    // Fewer than the formula says unless somebody asks for the input's gradient.
    const std::int64_t reduced = gradient_of_input ? 2 : 1;
    CHECK(bytes["micro rows"] == reduced * 4 * kBatch * kIo / c);
    CHECK(bytes["micro rows calls"] == reduced);
    CHECK(bytes.count("update rows") == 0);  // no rank has a part of dW or dV that others have, too
    CHECK(bytes["update cols"] == 4 * kHidden / r);  // dbias
  }
}

TEST_CASE("batch, hidden and io: every tensor over the mesh dim of the one that it lacks") {
  constexpr std::int64_t p = 2, r = 4, c = 8;
  auto bytes = Perceptron(false).bytes("planes:2,rows:4,cols:8",
                                       "batch:planes,hidden:rows,io:cols,out:cols");
  CHECK(bytes["micro cols"] == 2 * 4 * (kBatch / p) * (kHidden / r));
  CHECK(bytes["micro rows"] == 4 * (kBatch / p) * (kIo / c));  // y; nobody asks for dx
  CHECK(bytes["update planes"] == 4 * 2 * (kIo / c) * (kHidden / r));
  CHECK(bytes["update planes cols"] == 4 * kHidden / r);  // dbias
  CHECK(bytes.size() == 2 * 4);
}

TEST_CASE("a partial sum is reduced whole, or scattered where its reader is cut on the mesh dim") {
  VariableSet variables;
  Graph graph("micro", variables);
  const Tensor x = graph.input("x", {Shape{{"batch", kBatch}, {"io", kIo}}, DType::f32});
  const Tensor w = graph.input("w", {Shape{{"io", kIo}, {"hidden", kHidden}}, DType::f32});
  const Tensor sum = ops::einsum({x, w}, Shape{{"batch", kBatch}, {"hidden", kHidden}});
  const Tensor h = ops::relu(ops::rename(sum, "batch", "row"));
  variables.declare({"h", h.spec(), Variable::Kind::state, {}, true, true, ""});
  graph.assign("h", h);
  for (const auto& [rules, kind] :
       {std::pair{"io:all", program::CollectiveKind::all_reduce},
        std::pair{"io:all,row:all", program::CollectiveKind::reduce_scatter}}) {
    INFO(rules);
    const auto program = plan::compile(variables, {&graph}, layout("all:8", rules));
    const auto rows = plan::collectives_of(program, program.section("micro"));
    REQUIRE(rows.size() == 1);
    CHECK(rows[0].op == kind);
    CHECK(rows[0].count == 1);
    CHECK(rows[0].bytes == 4 * kBatch * kHidden);
  }
}

TEST_CASE(
    "a gradient that comes through a weight's norm joins the weight's own, then it is reduced") {
  VariableSet variables;
  Graph micro("micro", variables), update("update", variables);
  const Tensor x = micro.input("x", {Shape{{"batch", kBatch}, {"io", kIo}}, DType::f32});
  const TensorSpec spec{Shape{{"io", kIo}, {"hidden", kHidden}}, DType::f32};
  const Tensor w = micro.variable({"w", spec, Variable::Kind::weight, {}, true, true, ""});
  const Tensor scaled = ops::divide(w, ops::sqrt(ops::reduce_sum_squares(w, Shape{})));
  const Tensor y = ops::einsum({x, scaled}, Shape{{"batch", kBatch}, {"hidden", kHidden}});
  const Tensor loss = ops::reduce_sum(ops::multiply(y, y), Shape{});
  variables.declare({"gradient/w", spec, Variable::Kind::gradient, {}, true, true, "w"});
  micro.accumulate("gradient/w", gradients(loss, {w})[0], true);
  update.assign("w", ops::subtract(update.read("w"), update.read("gradient/w")));
  const auto program = plan::compile(variables, {&micro, &update}, layout("all:8", "batch:all"));
  CHECK(plan::collectives_of(program, program.section("micro")).empty());
  const auto rows = plan::collectives_of(program, program.section("update"));
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].count == 1);
  CHECK(rows[0].bytes == 4 * kIo * kHidden);
}
