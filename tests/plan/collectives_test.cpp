// SPDX-License-Identifier: BSD-3-Clause
// Collectives of the two-layer perceptron y = relu(x W + bias) V against the closed formulas that
// follow from "Mesh-TensorFlow: Deep Learning for Supercomputers", section on layouts of fully
// connected networks.
#include <map>

#include "support/catch.hpp"
#include "tessera/ops/einsum.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/reduce.hpp"
#include "tessera/plan/planner.hpp"
#include "tessera/plan/report.hpp"

using namespace tessera;

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

  std::map<std::string, std::int64_t> bytes(const std::string& mesh, const std::string& rules) {
    plan::PlanOptions options;
    options.mesh = MeshShape::parse(mesh, 0);
    options.layout = Layout::parse(rules);
    const auto program = plan::compile(variables, {&micro, &update}, options);
    std::map<std::string, std::int64_t> result;
    for (const auto& row : plan::report(program, {{"micro", 1}, {"update", 1}}).collectives) {
      if (row.op != program::CollectiveKind::all_reduce) continue;
      std::string key = row.section;
      for (int m : row.mesh_dims) key += " " + options.mesh[m].name;
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
  plan::PlanOptions options;
  options.mesh = MeshShape::parse("all:8", 0);
  options.layout = Layout::parse("batch:all");
  const auto program = plan::compile(variables, {&micro, &update}, options);
  CHECK(plan::collectives_of(program, program.section("micro")).empty());
  const auto rows = plan::collectives_of(program, program.section("update"));
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].count == 1);
  CHECK(rows[0].bytes == 4 * kIo * kHidden);
}
