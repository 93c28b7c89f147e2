// SPDX-License-Identifier: BSD-3-Clause
// A pipeline gives what its stages give one after the other, and the same gradients, wherever the
// stages lie.
#include <cmath>

#include "support/catch.hpp"
#include "support/op_case.hpp"
#include "support/simulated_run.hpp"
#include "tessera/base/error.hpp"
#include "tessera/nn/pipeline.hpp"
#include "tessera/ops/einsum.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/reduce.hpp"
#include "tessera/ops/shape_ops.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

constexpr std::int64_t kBatch = 2, kWidth = 3;

/// tanh(x w) + 1 / (x^2 + 1) with a w of its own for each stage.
Tensor stage_of(Tensor x, Tensor w) {
  const Tensor y = ops::tanh(ops::rename(
      ops::einsum({x, w},
                  Shape{{"stage", x.shape().size_of("stage")}, {"batch", kBatch}, {"out", kWidth}}),
      "out", "width"));
  return ops::add(y, ops::reciprocal(ops::add(ops::square(x), 1)));
}

std::vector<double> one_after_the_other(const Values& values, std::int64_t micros,
                                        std::int64_t stages) {
  std::vector<double> y = values.at("x");
  const auto& w = values.at("w");
  for (std::int64_t s = 0; s < stages; ++s)
    for (std::int64_t row = 0; row < micros * kBatch; ++row) {
      double* x = y.data() + row * kWidth;
      double next[kWidth];
      for (std::int64_t o = 0; o < kWidth; ++o) {
        double sum = 0;
        for (std::int64_t i = 0; i < kWidth; ++i)
          sum += x[i] * w[static_cast<std::size_t>((s * kWidth + i) * kWidth + o)];
        next[o] = std::tanh(sum) + 1 / (x[o] * x[o] + 1);
      }
      std::copy(next, next + kWidth, x);
    }
  return y;
}

}  // namespace

TEST_CASE("a pipeline is its stages one after the other") {
  for (const auto& [micros, stages] :
       {std::pair<std::int64_t, std::int64_t>{1, 1}, {3, 1}, {1, 3}, {3, 2}, {4, 3}}) {
    OpCase c;
    c.name = concat("pipeline of ", stages, " stages, ", micros, " micro-batches");
    c.inputs = {{"x", Shape{{"micro", micros}, {"batch", kBatch}, {"width", kWidth}}},
                {"w", Shape{{"stage", stages}, {"width", kWidth}, {"out", kWidth}}}};
    c.tolerance = 1e-8;
    c.build = [stages = stages](Graph&, const std::vector<Tensor>& in) {
      return nn::pipeline(in[0], {.stages = stages}, [&](Tensor x) { return stage_of(x, in[1]); });
    };
    c.reference = [micros = micros, stages = stages](const Values& values) {
      return one_after_the_other(values, micros, stages);
    };
    check_op(c);
  }
}

TEST_CASE("what does not fit a pipeline is refused") {
  VariableSet variables;
  Graph graph("micro", variables);
  const Tensor x = graph.input("x", {Shape{{"micro", 2}, {"width", 3}}, DType::f64});
  const auto same = [](Tensor t) { return t; };
  CHECK_THROWS_AS(nn::pipeline(x, {.stages = 0}, same), UserError);
  CHECK_THROWS_AS(nn::pipeline(x, {.micro_dim = "batch"}, same), UserError);
  CHECK_THROWS_AS(nn::pipeline(x, {.stage_dim = "width"}, same), UserError);
  CHECK_THROWS_AS(nn::pipeline(x, {}, [](Tensor t) { return ops::rename(t, "width", "w"); }),
                  UserError);
}
