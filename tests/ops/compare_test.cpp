// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/ops/compare.hpp"

#include <cmath>

#include "support/catch.hpp"
#include "support/op_case.hpp"
#include "tessera/ops/elementwise.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

const Shape kLeft{{"n", 5}, {"m", 3}}, kRight{{"m", 3}, {"k", 2}};
constexpr auto kWhole = OpInput::Fill::ids;

/// f over [n, m] and [m, k]: results [n, m, k]. Ids are small whole numbers.
void check_binary(const std::string& name, Tensor (*op)(Tensor, Tensor),
                  double (*f)(double, double), OpInput::Fill fill, bool differentiable = false) {
  OpCase c;
  c.name = name;
  c.inputs = {{"a", kLeft, fill, 3}, {"b", kRight, fill, 3}};
  c.build = [=](Graph&, const std::vector<Tensor>& in) {
    return ops::cast(op(in[0], in[1]), DType::f64);
  };
  c.reference = [=](const Values& values) {
    std::vector<double> y;
    for (int n = 0; n < 5; ++n)
      for (int m = 0; m < 3; ++m)
        for (int k = 0; k < 2; ++k)
          y.push_back(f(values.at("a")[at(kLeft, {n, m})], values.at("b")[at(kRight, {m, k})]));
    return y;
  };
  c.differentiable = differentiable;
  check_op(c);
}

void check_unary(const std::string& name, Tensor (*op)(Tensor), double (*f)(double), bool whole) {
  OpCase c;
  c.name = name;
  c.inputs = {{"x", kLeft, whole ? OpInput::Fill::ids : OpInput::Fill::normal, 3}};
  c.build = [=](Graph&, const std::vector<Tensor>& in) { return ops::cast(op(in[0]), DType::f64); };
  c.reference = [=](const Values& values) {
    std::vector<double> y;
    for (double x : values.at("x")) y.push_back(f(x));
    return y;
  };
  c.differentiable = false;
  check_op(c);
}

}  // namespace

TEST_CASE("comparisons of numbers that are often equal") {
  check_binary(
      "greater", ops::greater, [](double a, double b) { return double(a > b); }, kWhole);
  check_binary(
      "less_equal", ops::less_equal, [](double a, double b) { return double(a <= b); }, kWhole);
  check_binary(
      "greater_equal", ops::greater_equal, [](double a, double b) { return double(a >= b); },
      kWhole);
  check_binary(
      "not_equal", ops::not_equal, [](double a, double b) { return double(a != b); }, kWhole);
}

TEST_CASE("logic of numbers") {
  check_binary(
      "and", ops::logical_and, [](double a, double b) { return double(a != 0 && b != 0); }, kWhole);
  check_binary(
      "or", ops::logical_or, [](double a, double b) { return double(a != 0 || b != 0); }, kWhole);
  check_unary(
      "not", ops::logical_not, [](double x) { return double(x == 0); }, true);
  check_unary(
      "not of fractions", ops::logical_not, [](double x) { return double(x == 0); }, false);
}

TEST_CASE("floors") {
  check_binary(
      "floor_divide", ops::floor_divide, [](double a, double b) { return std::floor(a / b); },
      OpInput::Fill::normal);
  check_binary(
      "modulo", ops::modulo, [](double a, double b) { return a - b * std::floor(a / b); },
      OpInput::Fill::positive, true);
  check_unary(
      "floor", ops::floor, [](double x) { return std::floor(x); }, false);
  check_unary(
      "sign", ops::sign, [](double x) { return double(x > 0) - double(x < 0); }, false);
  check_unary(
      "sign of whole numbers", ops::sign, [](double x) { return double(x > 0); }, true);
}

TEST_CASE("comparisons with NaN are false but for not_equal") {
  VariableSet variables;
  Graph graph("op", variables);
  const Tensor x = graph.input("x", {Shape{{"n", 2}}, DType::f64});
  graph.fetch("le", ops::less_equal(x, x));
  graph.fetch("ge", ops::greater_equal(x, x));
  graph.fetch("gt", ops::greater(x, x));
  graph.fetch("ne", ops::not_equal(x, x));
  graph.fetch("sign", ops::sign(x));
  SimulatedRun run(variables, {&graph}, {});
  run.run("op", {{"x", {std::nan(""), 2}}});
  CHECK(run.fetch("op", "le") == std::vector<double>{0, 1});
  CHECK(run.fetch("op", "ge") == std::vector<double>{0, 1});
  CHECK(run.fetch("op", "gt") == std::vector<double>{0, 0});
  CHECK(run.fetch("op", "ne") == std::vector<double>{1, 0});
  CHECK(std::isnan(run.fetch("op", "sign")[0]));
}
