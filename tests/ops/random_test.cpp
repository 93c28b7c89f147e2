// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/ops/random.hpp"

#include <cmath>

#include "support/catch.hpp"
#include "support/op_case.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/hash.hpp"
#include "tessera/base/philox.hpp"
#include "tessera/kernels/random.hpp"
#include "tessera/ops/elementwise.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

const Shape kShape{{"batch", 5}, {"m", 3}};
constexpr std::uint64_t kSeed = 11;

/// f(key of stream `name` in step 1, element) for all elements.
template <class Function>
std::vector<double> drawn(const char* name, const Function& f) {
  const auto key = stream_key(1, stream_key(kSeed, hash_text(name)));
  std::vector<double> y;
  for (std::uint64_t i = 0; i < 15; ++i) y.push_back(f(key, i));
  return y;
}

void check_draws(const std::string& name, const std::function<Tensor(Graph&)>& draw,
                 const std::vector<double>& expected) {
  OpCase c;
  c.name = name;
  c.inputs = {{"x", kShape}};
  c.build = [=](Graph& graph, const std::vector<Tensor>& in) {
    return ops::add(in[0], draw(graph));
  };
  c.reference = [=](const Values& v) {
    std::vector<double> y = v.at("x");
    for (std::size_t i = 0; i < y.size(); ++i) y[i] += expected[i];
    return y;
  };
  check_op(c);
}

}  // namespace

TEST_CASE("draws are functions of seed, name, step and place") {
  const TensorSpec spec{kShape, DType::f64};
  check_draws(
      "uniform",
      [=](Graph& graph) {
        return ops::random_uniform(graph, spec, 2, 6, {.seed = kSeed, .name = "u"});
      },
      drawn("u", [](auto key, auto i) { return 4 + 2 * kernels::uniform_draw(key, i); }));
  check_draws(
      "normal",
      [=](Graph& graph) {
        return ops::random_normal(graph, spec, -1, 3, {.seed = kSeed, .name = "n"});
      },
      drawn("n", [](auto key, auto i) { return -1 + 3 * kernels::normal_draw(key, i); }));
  check_draws(
      "bernoulli",
      [=](Graph& graph) {
        return ops::random_bernoulli(graph, spec, 0.3, {.seed = kSeed, .name = "b"});
      },
      drawn("b", [](auto key, auto i) {
        return (1 + kernels::uniform_draw(key, i)) / 2 < 0.3 ? 1.0 : 0.0;
      }));
}

TEST_CASE("each step and each micro-batch has draws of its own") {
  VariableSet variables;
  Graph graph("op", variables);
  graph.fetch("y", ops::random_uniform(graph, {kShape, DType::f32}, 0, 1,
                                       {.seed = kSeed, .batch_total = 10}));
  SimulatedRun run(variables, {&graph}, {});
  const auto draws = [&](std::int64_t step, std::int64_t micro) {
    run.run("op", {}, {step, micro, {}});
    return run.fetch("op", "y");
  };
  const auto first = draws(1, 0);
  CHECK(first == draws(1, 0));
  CHECK(first != draws(2, 0));
  CHECK(first != draws(1, 1));
  double mean = 0;
  for (int step = 1; step <= 400; ++step)
    for (double u : draws(step, 0)) {
      REQUIRE(u > 0);
      REQUIRE(u <= 1);
      mean += u / (400 * 15);
    }
  CHECK(std::abs(mean - 0.5) < 0.015);  // four standard deviations
}

TEST_CASE("two micro-batches draw what one whole batch draws") {
  VariableSet variables;
  Graph whole("whole", variables), half("half", variables);
  const ops::DrawOptions options{.seed = kSeed, .batch_total = 4};
  whole.fetch("y",
              ops::random_normal(whole, {{{"batch", 4}, {"m", 3}}, DType::f64}, 0, 1, options));
  half.fetch("y", ops::random_normal(half, {{{"batch", 2}, {"m", 3}}, DType::f64}, 0, 1, options));
  SimulatedRun run(variables, {&whole, &half}, {});
  run.run("whole", {}, {3, 0, {}});
  const auto all = run.fetch("whole", "y");
  std::vector<double> parts;
  for (int micro = 0; micro < 2; ++micro) {
    run.run("half", {}, {3, micro, {}});
    for (double value : run.fetch("half", "y")) parts.push_back(value);
  }
  CHECK(all == parts);
}

TEST_CASE("a range counts along a dim, cut or not") {
  OpCase c;
  c.name = "range";
  c.inputs = {{"x", {{"m", 3}, {"n", 5}}}};
  c.build = [](Graph& graph, const std::vector<Tensor>& in) {
    const Tensor whole = ops::cast(ops::range(graph, {"n", 5}, DType::i32), DType::f64);
    return ops::add(ops::multiply(in[0], whole),
                    ops::range(graph, {"n", 5}, DType::f64, 0.5, -0.25));
  };
  c.reference = [](const Values& v) {
    std::vector<double> y;
    for (std::size_t i = 0; i < 15; ++i) {
      const auto n = static_cast<double>(i % 5);
      y.push_back(v.at("x")[i] * n + 0.5 - 0.25 * n);
    }
    return y;
  };
  check_op(c);
}

TEST_CASE("draws say what is legal") {
  VariableSet variables;
  Graph graph("op", variables);
  CHECK_THROWS_AS(ops::random_uniform(graph, {kShape, DType::f32}, 1, 0, {}), UserError);
  CHECK_THROWS_AS(ops::random_normal(graph, {kShape, DType::f32}, 0, -1, {}), UserError);
  CHECK_THROWS_AS(ops::random_bernoulli(graph, {kShape, DType::f32}, 1.5, {}), UserError);
  CHECK_THROWS_AS(ops::random_uniform(graph, {kShape, DType::i32}, 0, 1, {}), UserError);
}
