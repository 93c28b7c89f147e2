// SPDX-License-Identifier: BSD-3-Clause
// What decoding steps are made of, under every layout.
#include "tessera/ops/decoding.hpp"

#include <cmath>

#include "support/catch.hpp"
#include "support/op_case.hpp"
#include "tessera/base/error.hpp"
#include "tessera/nn/cache.hpp"
#include "tessera/ops/attend.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/positions.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

kernels::Feeds position(double value) {
  return {1, 0, {{"position", value}}};
}

}  // namespace

TEST_CASE("write_at writes where the index lies and keeps all else") {
  const Shape whole{{"batch", 3}, {"memory", 5}, {"heads", 2}};
  OpCase c;
  c.name = "write_at";
  c.inputs = {{"whole", whole}, {"slice", whole.without("memory")}};
  c.build = [](Graph&, const std::vector<Tensor>& in) {
    return ops::write_at(in[0], in[1], "memory", "position");
  };
  c.differentiable = false;
  for (const std::int64_t index : {0, 2, 4}) {
    c.feeds = position(static_cast<double>(index));
    c.reference = [=](const Values& values) {
      auto y = values.at("whole");
      for (std::int64_t b = 0; b < 3; ++b)
        for (std::int64_t h = 0; h < 2; ++h)
          y[at(whole, {b, index, h})] = values.at("slice")[static_cast<std::size_t>(b * 2 + h)];
      return y;
    };
    check_op(c);
  }
}

TEST_CASE("write_at names what does not fit") {
  VariableSet variables;
  Graph graph("op", variables);
  const Tensor whole = graph.input("whole", {Shape{{"a", 2}, {"b", 3}}, DType::f32});
  const Tensor slice = graph.input("slice", {Shape{{"a", 3}}, DType::f32});
  CHECK_THROWS_WITH(ops::write_at(whole, slice, "b", "position"),
                    Catch::Matchers::Contains("must be [a:2], found [a:3]"));
}

TEST_CASE("positions that a feed holds") {
  const Shape shape{{"batch", 3}, {"d", 6}};
  OpCase c;
  c.name = "rotary_at";
  c.inputs = {{"x", shape}};
  c.build = [](Graph& graph, const std::vector<Tensor>& in) {
    const Tensor row = ops::sinusoid_at(graph, {Shape{{"d", 6}}, DType::f64}, "position");
    return ops::add(ops::rotary_at(in[0], "position"), row);
  };
  c.feeds = position(37);
  c.reference = [](const Values& values) {
    const auto& x = values.at("x");
    std::vector<double> y(x.size());
    for (std::size_t row = 0; row < 3; ++row)
      for (std::size_t i = 0; i < 3; ++i) {
        const std::size_t low = 6 * row + i, high = low + 3;
        const double pair = static_cast<double>(i);
        const double turn = 37 * std::pow(10000.0, -2 * pair / 6);
        const double wave = 37 * std::pow(10000.0, -pair / 2);
        y[low] = x[low] * std::cos(turn) - x[high] * std::sin(turn) + std::sin(wave);
        y[high] = x[low] * std::sin(turn) + x[high] * std::cos(turn) + std::cos(wave);
      }
    return y;
  };
  check_op(c);
}

TEST_CASE("attention of one position to a cache, whose length may be cut") {
  const Shape q{{"batch", 2}, {"beam", 2}, {"heads", 2}, {"group", 3}, {"d", 3}};
  const Shape k{{"batch", 2}, {"beam", 2}, {"memory", 5}, {"heads", 2}, {"d", 3}};
  OpCase c;
  c.name = "attend";
  c.inputs = {{"q", q}, {"k", k}, {"v", k}};
  c.build = [](Graph& graph, const std::vector<Tensor>& in) {
    return ops::attend(in[0], in[1], in[2], "memory",
                       nn::visible_so_far(graph, {"memory", 5}, DType::f64));
  };
  c.feeds = position(2);
  c.partial = false;
  c.reference = [=](const Values& values) {
    std::vector<double> y(static_cast<std::size_t>(q.size()));
    for (std::int64_t row = 0; row < q.size() / 3; ++row) {
      const std::int64_t b = row / 12, beam = row / 6 % 2, h = row / 3 % 2, g = row % 3;
      double sum = 0;
      for (std::int64_t m = 0; m <= 2; ++m) {
        double score = 0;
        for (std::int64_t d = 0; d < 3; ++d)
          score +=
              values.at("q")[at(q, {b, beam, h, g, d})] * values.at("k")[at(k, {b, beam, m, h, d})];
        const double weight = std::exp(score / std::sqrt(3.0));
        sum += weight;
        for (std::int64_t d = 0; d < 3; ++d)
          y[at(q, {b, beam, h, g, d})] += weight * values.at("v")[at(k, {b, beam, m, h, d})];
      }
      for (std::int64_t d = 0; d < 3; ++d) y[at(q, {b, beam, h, g, d})] /= sum;
    }
    return y;
  };
  check_op(c);
}
