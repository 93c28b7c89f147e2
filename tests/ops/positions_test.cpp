// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/ops/positions.hpp"

#include <cmath>

#include "support/catch.hpp"
#include "support/op_case.hpp"
#include "tessera/ops/elementwise.hpp"

using namespace tessera;
using namespace tessera::test;

TEST_CASE("rotary positions turn pairs by their global position") {
  const Shape shape{{"batch", 2}, {"length", 5}, {"heads", 2}, {"d", 6}};
  OpCase c;
  c.name = "rotary";
  c.inputs = {{"x", shape}};
  c.build = [](Graph&, const std::vector<Tensor>& in) { return ops::rotary(in[0], "length"); };
  c.reference = [=](const Values& values) {
    std::vector<double> y(values.at("x").size());
    for (std::int64_t row = 0; row < 20; ++row)
      for (std::int64_t i = 0; i < 3; ++i) {
        const double position = static_cast<double>(row / 2 % 5);
        const double angle = position * std::pow(10000.0, -2.0 * static_cast<double>(i) / 6);
        const auto first = static_cast<std::size_t>(6 * row + i), second = first + 3;
        const double a = values.at("x")[first], b = values.at("x")[second];
        y[first] = a * std::cos(angle) - b * std::sin(angle);
        y[second] = a * std::sin(angle) + b * std::cos(angle);
      }
    return y;
  };
  check_op(c);
}

TEST_CASE("the table of sinusoids is the same however it is cut") {
  const Shape shape{{"length", 7}, {"d", 6}};
  OpCase c;
  c.name = "sinusoid";
  c.inputs = {{"x", shape}};
  c.build = [=](Graph& graph, const std::vector<Tensor>& in) {
    return ops::multiply(in[0], ops::sinusoid(graph, {shape, DType::f64}));
  };
  c.reference = [](const Values& values) {
    std::vector<double> y;
    for (std::size_t i = 0; i < 42; ++i) {
      const double position = static_cast<double>(i / 6), k = static_cast<double>(i % 3);
      // Wavelengths from 2 pi to 10000 x 2 pi, both ends included.
      const double angle = position * std::pow(10000.0, -k / 2);
      y.push_back(values.at("x")[i] * (i % 6 < 3 ? std::sin(angle) : std::cos(angle)));
    }
    return y;
  };
  check_op(c);
}
