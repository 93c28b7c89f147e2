// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/ops/reduce.hpp"

#include <algorithm>
#include <limits>

#include "support/catch.hpp"
#include "support/op_case.hpp"
#include "tessera/ops/elementwise.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

const Shape kShape{{"n", 5}, {"m", 3}, {"k", 4}};

/// Folds kShape to [k, n] in plain loops.
std::vector<double> fold(const std::vector<double>& x, double start, double (*f)(double, double)) {
  std::vector<double> y;
  for (int k = 0; k < 4; ++k)
    for (int n = 0; n < 5; ++n) {
      double value = start;
      for (int m = 0; m < 3; ++m) value = f(value, x[at(kShape, {n, m, k})]);
      y.push_back(value);
    }
  return y;
}

void check_reduce(const std::string& name, Tensor (*op)(Tensor, const Shape&), double start,
                  double (*f)(double, double), double factor = 1) {
  const Shape output{{"k", 4}, {"n", 5}};
  OpCase c;
  c.name = name;
  c.inputs = {{"x", kShape}};
  c.build = [=](Graph&, const std::vector<Tensor>& in) { return op(in[0], output); };
  c.reference = [=](const Values& values) {
    auto y = fold(values.at("x"), start, f);
    for (double& value : y) value *= factor;
    return y;
  };
  check_op(c);
}

}  // namespace

TEST_CASE("reductions over a dim, the rest transposed") {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const auto plus = [](double a, double b) { return a + b; };
  check_reduce(
      "sum", [](Tensor x, const Shape& to) { return ops::reduce_sum(x, to); }, 0, plus);
  check_reduce(
      "2.5 x sum", [](Tensor x, const Shape& to) { return ops::reduce_sum(x, to, 2.5); }, 0, plus,
      2.5);
  check_reduce("mean", ops::reduce_mean, 0, plus, 1.0 / 3);
  check_reduce("sum of squares", ops::reduce_sum_squares, 0,
               [](double a, double b) { return a + b * b; });
  check_reduce("max", ops::reduce_max, -infinity,
               [](double a, double b) { return std::max(a, b); });
  check_reduce("min", ops::reduce_min, infinity, [](double a, double b) { return std::min(a, b); });
}

TEST_CASE("reductions to a scalar, and of nothing") {
  OpCase c;
  c.name = "sum of all";
  c.inputs = {{"x", kShape}};
  c.build = [](Graph&, const std::vector<Tensor>& in) { return ops::reduce_sum(in[0], Shape{}); };
  c.reference = [](const Values& values) {
    double sum = 0;
    for (double x : values.at("x")) sum += x;
    return std::vector<double>{sum};
  };
  check_op(c);

  c.name = "maximum of every element twice: both share the gradient";
  c.build = [](Graph&, const std::vector<Tensor>& in) {
    const Tensor twice = ops::broadcast(in[0], {{"n", 5}, {"m", 3}, {"k", 4}, {"twin", 2}});
    return ops::reduce_max(twice, {{"n", 5}});
  };
  c.reference = [](const Values& values) {
    std::vector<double> y;
    for (int n = 0; n < 5; ++n) {
      const auto first = values.at("x").begin() + 12 * n;
      y.push_back(*std::max_element(first, first + 12));
    }
    return y;
  };
  check_op(c);

  c.name = "sum of nothing";
  c.inputs = {{"x", {{"n", 0}, {"m", 3}}}};
  c.build = [](Graph&, const std::vector<Tensor>& in) {
    return ops::reduce_sum(in[0], {{"m", 3}});
  };
  c.reference = [](const Values&) { return std::vector<double>(3); };
  check_op(c);
}

TEST_CASE("any and all, of i32 and of nothing") {
  const Shape shape{{"n", 5}, {"m", 3}};
  OpCase c;
  c.name = "any + 2 all";
  c.inputs = {{"x", shape, OpInput::Fill::ids, 2}};
  c.differentiable = false;
  c.build = [](Graph&, const std::vector<Tensor>& in) {
    const Tensor any = ops::reduce_any(in[0], {{"n", 5}}), all = ops::reduce_all(in[0], {{"n", 5}});
    return ops::cast(ops::add(any, ops::multiply(all, 2)), DType::f64);
  };
  c.reference = [=](const Values& values) {
    std::vector<double> y;
    for (int n = 0; n < 5; ++n) {
      bool any = false, all = true;
      for (int m = 0; m < 3; ++m) {
        const bool x = values.at("x")[at(shape, {n, m})] != 0;
        any = any || x;
        all = all && x;
      }
      y.push_back(any + 2.0 * all);
    }
    return y;
  };
  check_op(c);

  c.inputs = {{"x", {{"n", 5}, {"m", 0}}}};
  c.partial = false;
  c.reference = [](const Values&) { return std::vector<double>(5, 2.0); };
  check_op(c);
}
