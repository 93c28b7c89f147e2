// SPDX-License-Identifier: BSD-3-Clause
#include <cmath>
#include <numbers>

#include "support/catch.hpp"
#include "support/op_case.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/pointwise.hpp"
#include "tessera/ops/reduce.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

const Shape kRows{{"n", 5}, {"m", 3}};

using Unary = Tensor (*)(Tensor);

void check_unary(const std::string& name, Unary op, double (*f)(double),
                 OpInput::Fill fill = OpInput::Fill::normal, bool differentiable = true) {
  OpCase c;
  c.name = name;
  c.inputs = {{"x", kRows, fill}};
  c.build = [=](Graph&, const std::vector<Tensor>& in) { return op(in[0]); };
  c.reference = [=](const Values& values) {
    std::vector<double> y;
    for (double x : values.at("x")) y.push_back(f(x));
    return y;
  };
  c.differentiable = differentiable;
  check_op(c);
}

double phi(double x) {
  return 0.5 * (1 + std::erf(x / std::numbers::sqrt2));
}

}  // namespace

TEST_CASE("elementwise functions of one tensor") {
  const auto positive = OpInput::Fill::positive;
  check_unary("negate", ops::negate, [](double x) { return -x; });
  check_unary("absolute", ops::absolute, [](double x) { return std::abs(x); });
  check_unary("square", ops::square, [](double x) { return x * x; });
  check_unary(
      "sqrt", ops::sqrt, [](double x) { return std::sqrt(x); }, positive);
  check_unary(
      "rsqrt", ops::rsqrt, [](double x) { return 1 / std::sqrt(x); }, positive);
  check_unary(
      "reciprocal", ops::reciprocal, [](double x) { return 1 / x; }, positive);
  check_unary("exp", ops::exp, [](double x) { return std::exp(x); });
  check_unary(
      "log", ops::log, [](double x) { return std::log(x); }, positive);
  check_unary("sin", ops::sin, [](double x) { return std::sin(x); });
  check_unary("cos", ops::cos, [](double x) { return std::cos(x); });
  check_unary("tanh", ops::tanh, [](double x) { return std::tanh(x); });
  check_unary("erf", ops::erf, [](double x) { return std::erf(x); });
  check_unary(
      "is_finite", ops::is_finite, [](double) { return 1.0; }, positive, false);
}

TEST_CASE("activations") {
  check_unary("sigmoid", ops::sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); });
  check_unary("relu", ops::relu, [](double x) { return x > 0 ? x : 0; });
  check_unary("gelu", ops::gelu, [](double x) { return x * phi(x); });
  check_unary("gelu_tanh", ops::gelu_tanh, [](double x) {
    const double inner = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
    return 0.5 * x * (1 + std::tanh(inner));
  });
  check_unary("silu", ops::silu, [](double x) { return x / (1 + std::exp(-x)); });
}

namespace {

/// f over [n, m] and [k, n]: results [n, m, k].
void check_binary(const std::string& name, Tensor (*op)(Tensor, Tensor),
                  double (*f)(double, double), OpInput::Fill fill = OpInput::Fill::normal,
                  bool differentiable = true) {
  OpCase c;
  c.name = name;
  const Shape left = kRows, right{{"k", 2}, {"n", 5}};
  c.inputs = {{"a", left, fill}, {"b", right, fill}};
  c.build = [=](Graph&, const std::vector<Tensor>& in) { return op(in[0], in[1]); };
  c.reference = [=](const Values& values) {
    std::vector<double> y;
    for (int n = 0; n < 5; ++n)
      for (int m = 0; m < 3; ++m)
        for (int k = 0; k < 2; ++k)
          y.push_back(f(values.at("a")[at(left, {n, m})], values.at("b")[at(right, {k, n})]));
    return y;
  };
  c.differentiable = differentiable;
  check_op(c);
}

}  // namespace

TEST_CASE("elementwise functions of two tensors broadcast by name") {
  const auto positive = OpInput::Fill::positive;
  check_binary("add", ops::add, [](double a, double b) { return a + b; });
  check_binary("subtract", ops::subtract, [](double a, double b) { return a - b; });
  check_binary("multiply", ops::multiply, [](double a, double b) { return a * b; });
  check_binary(
      "divide", ops::divide, [](double a, double b) { return a / b; }, positive);
  check_binary("minimum", ops::minimum, [](double a, double b) { return std::min(a, b); });
  check_binary("maximum", ops::maximum, [](double a, double b) { return std::max(a, b); });
  check_binary(
      "power", ops::power, [](double a, double b) { return std::pow(a, b); }, positive);
  check_binary(
      "less", ops::less, [](double a, double b) { return a < b ? 1.0 : 0.0; },
      OpInput::Fill::normal, false);
  check_binary(
      "equal", ops::equal, [](double a, double b) { return a == b ? 1.0 : 0.0; },
      OpInput::Fill::normal, false);
}

TEST_CASE("equal elements share the gradient of their maximum or minimum") {
  for (const bool largest : {true, false}) {
    VariableSet variables;
    Graph graph("op", variables);
    const TensorSpec spec{Shape{{"n", 3}}, DType::f64};
    const Tensor a = graph.input("a", spec), b = graph.input("b", spec);
    const Tensor y = largest ? ops::maximum(a, b) : ops::minimum(a, b);
    const auto slopes = gradients(ops::reduce_sum(y, Shape{}), {a, b});
    graph.fetch("da", slopes[0]);
    graph.fetch("db", slopes[1]);
    SimulatedRun run(variables, {&graph}, {});
    run.run("op", {{"a", {1, 2, 3}}, {"b", {1, 3, 2}}});
    const std::vector<double> later{0.5, 1, 0}, sooner{0.5, 0, 1};
    CHECK(run.fetch("op", "da") == (largest ? sooner : later));
    CHECK(run.fetch("op", "db") == (largest ? later : sooner));
  }
}

TEST_CASE("at a constant bound all of the gradient passes, whichever operand it is") {
  VariableSet variables;
  Graph graph("op", variables);
  const Tensor x = graph.input("x", {Shape{{"n", 3}}, DType::f64});
  const auto slope = [&](ops::PointOp op, bool first) {
    const Tensor y =
        ops::pointwise1({x},
                        [&](std::span<const ops::Value> in) {
                          const ops::Value bound = in[0].constant(2);
                          return first ? bound.apply(op, in[0]) : in[0].apply(op, bound);
                        },
                        {.shape = x.shape(), .dtypes = {DType::f64}, .name = "bounded"});
    return gradients(ops::reduce_sum(y, Shape{}), {x})[0];
  };
  for (const bool first : {true, false}) {
    const std::string name = first ? "first" : "second";
    graph.fetch("maximum " + name, slope(ops::PointOp::maximum, first));
    graph.fetch("minimum " + name, slope(ops::PointOp::minimum, first));
  }
  SimulatedRun run(variables, {&graph}, {});
  run.run("op", {{"x", {1, 2, 3}}});
  for (const char* name : {"first", "second"}) {
    CHECK(run.fetch("op", std::string("maximum ") + name) == std::vector<double>{0, 1, 1});
    CHECK(run.fetch("op", std::string("minimum ") + name) == std::vector<double>{1, 1, 0});
  }
}

TEST_CASE("where, add_n, broadcast, casts and constants") {
  OpCase c;
  c.name = "where";
  c.inputs = {{"condition", {{"n", 5}}, OpInput::Fill::ids, 2}, {"a", kRows}, {"b", kRows}};
  c.build = [](Graph&, const std::vector<Tensor>& in) { return ops::where(in[0], in[1], in[2]); };
  c.reference = [](const Values& v) {
    std::vector<double> y;
    for (std::size_t i = 0; i < 15; ++i)
      y.push_back(v.at("condition")[i / 3] != 0 ? v.at("a")[i] : v.at("b")[i]);
    return y;
  };
  check_op(c);

  c.name = "add_n of 20 terms, some equal";
  c.inputs = {{"a", kRows}, {"b", kRows}};
  c.build = [](Graph&, const std::vector<Tensor>& in) {
    std::vector<Tensor> terms;
    for (int i = 0; i < 20; ++i) terms.push_back(i % 3 ? in[0] : in[1]);
    return ops::add_n(terms);
  };
  c.reference = [](const Values& v) {
    std::vector<double> y;
    for (std::size_t i = 0; i < 15; ++i) y.push_back(13 * v.at("a")[i] + 7 * v.at("b")[i]);
    return y;
  };
  check_op(c);

  c.name = "broadcast";
  c.inputs = {{"x", {{"m", 3}}}};
  c.build = [](Graph&, const std::vector<Tensor>& in) { return ops::broadcast(in[0], kRows); };
  c.reference = [](const Values& v) {
    std::vector<double> y;
    for (std::size_t i = 0; i < 15; ++i) y.push_back(v.at("x")[i % 3]);
    return y;
  };
  check_op(c);

  c.name = "a filled tensor, a stopped gradient and numbers";
  c.inputs = {{"x", kRows}};
  c.build = [](Graph& graph, const std::vector<Tensor>& in) {
    const Tensor two = ops::fill(graph, 2, {kRows, DType::f64});
    const Tensor stopped = ops::stop_gradient(ops::exp(in[0]));
    return ops::add(ops::multiply(ops::multiply(in[0], two), 0.5),
                    ops::subtract(stopped, ops::stop_gradient(ops::exp(in[0]))));
  };
  c.reference = [](const Values& v) { return v.at("x"); };
  check_op(c);
}

TEST_CASE("what is stored as i32 has no fraction, whatever reads it") {
  OpCase c;
  c.name = "cast to i32 and back";
  c.inputs = {{"x", kRows}};
  c.build = [](Graph&, const std::vector<Tensor>& in) {
    return ops::cast(ops::cast(ops::multiply(in[0], 10), DType::i32), DType::f64);
  };
  c.reference = [](const Values& v) {
    std::vector<double> y;
    for (double x : v.at("x")) y.push_back(std::trunc(10 * x));
    return y;
  };
  c.differentiable = false;
  c.partial = false;
  check_op(c);
}

TEST_CASE("gradients of more tensors than one step gives") {
  constexpr int kFactors = 12;
  OpCase c;
  c.name = "product of many";
  for (int i = 0; i < kFactors; ++i)
    c.inputs.push_back({"x" + std::to_string(i), Shape{{"n", 3}}, OpInput::Fill::positive});
  c.build = [](Graph&, const std::vector<Tensor>& in) {
    return ops::pointwise1(in, [](std::span<const ops::Value> factors) {
      ops::Value product = factors[0];
      for (std::size_t i = 1; i < factors.size(); ++i) product = product * factors[i];
      return product;
    });
  };
  c.reference = [](const Values& values) {
    std::vector<double> y(3, 1.0);
    for (int i = 0; i < kFactors; ++i)
      for (std::size_t n = 0; n < y.size(); ++n) y[n] *= values.at("x" + std::to_string(i))[n];
    return y;
  };
  c.partial = false;
  check_op(c);
}
