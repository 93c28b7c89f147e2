// SPDX-License-Identifier: BSD-3-Clause
// Layers of generators and discriminators against plain loops, on all meshes.
#include <algorithm>
#include <cmath>

#include "support/catch.hpp"
#include "support/op_case.hpp"
#include "tessera/base/error.hpp"
#include "tessera/nn/conv.hpp"
#include "tessera/nn/discriminator.hpp"
#include "tessera/ops/einsum.hpp"
#include "tessera/ops/elementwise.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

OpCase upsampled(std::int64_t factor) {
  const Shape small{{"n", 2}, {"rows", 3}, {"cols", 5}, {"c", 2}};
  OpCase c;
  c.name = "upsample by " + std::to_string(factor);
  c.inputs = {{"x", small}};
  c.build = [factor](Graph&, const std::vector<Tensor>& in) {
    return nn::upsample(in[0], {"rows", "cols"}, factor);
  };
  c.reference = [small, factor](const Values& values) {
    std::vector<double> y;
    for (std::int64_t n = 0; n < 2; ++n)
      for (std::int64_t i = 0; i < 3 * factor; ++i)
        for (std::int64_t j = 0; j < 5 * factor; ++j)
          for (std::int64_t k = 0; k < 2; ++k)
            y.push_back(values.at("x")[at(small, {n, i / factor, j / factor, k})]);
    return y;
  };
  return c;
}

/// The penalty of scores b . tanh(W x), written out: the slope is W^T (b (1 - tanh^2)).
OpCase penalised() {
  const std::int64_t rows = 3, in = 4, hidden = 5;
  const Shape x{{"n", rows}, {"in", in}}, w{{"in", in}, {"hidden", hidden}}, b{{"hidden", hidden}};
  OpCase c;
  c.name = "gradient penalty";
  c.inputs = {{"x", x}, {"w", w}, {"b", b}};
  c.build = [=](Graph&, const std::vector<Tensor>& given) {
    const Tensor h = ops::tanh(ops::einsum({given[0], given[1]}, Shape{x[0], b[0]}));
    return nn::gradient_penalty(ops::einsum({h, given[2]}, Shape{x[0]}), given[0]);
  };
  c.reference = [=](const Values& values) {
    std::vector<double> y;
    for (std::int64_t n = 0; n < rows; ++n) {
      double squares = 1e-12;
      for (std::int64_t i = 0; i < in; ++i) {
        double slope = 0;
        for (std::int64_t k = 0; k < hidden; ++k) {
          double sum = 0;
          for (std::int64_t j = 0; j < in; ++j)
            sum += values.at("x")[at(x, {n, j})] * values.at("w")[at(w, {j, k})];
          slope += values.at("w")[at(w, {i, k})] * values.at("b")[at(b, {k})] *
                   (1 - std::pow(std::tanh(sum), 2));
        }
        squares += slope * slope;
      }
      y.push_back(std::pow(std::sqrt(squares) - 1, 2));
    }
    return y;
  };
  return c;
}

}  // namespace

TEST_CASE("the gradient penalty is that of the written-out slope, on all meshes") {
  check_op(penalised());
}

TEST_CASE("upsampling on all meshes") {
  check_op(upsampled(2));
  check_op(upsampled(3));
}

TEST_CASE("upsampling names a dim that the picture lacks") {
  VariableSet variables;
  Graph graph("g", variables);
  const Tensor x = graph.input("x", {Shape{{"rows", 3}, {"c", 2}}, DType::f64});
  CHECK_THROWS_AS(nn::upsample(x, {"rows", "cols"}), UserError);
}

TEST_CASE("the hinge pulls scores beyond 1 and below -1") {
  for (const bool high : {true, false}) {
    OpCase c;
    c.name = "hinge";
    c.inputs = {{"x", Shape{{"n", 7}, {"m", 3}}}};
    c.build = [high](Graph&, const std::vector<Tensor>& in) { return nn::hinge(in[0], high); };
    c.reference = [high](const Values& values) {
      std::vector<double> y;
      for (double x : values.at("x")) y.push_back(std::max(0.0, high ? 1 - x : 1 + x));
      return y;
    };
    check_op(c);
  }
}
