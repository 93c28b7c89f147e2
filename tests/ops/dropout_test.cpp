// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/ops/dropout.hpp"

#include "support/catch.hpp"
#include "support/op_case.hpp"
#include "tessera/base/hash.hpp"
#include "tessera/base/philox.hpp"

using namespace tessera;
using namespace tessera::test;

TEST_CASE("the mask is a function of seed, name, step and global index") {
  const Shape shape{{"batch", 5}, {"m", 7}};
  OpCase c;
  c.name = "dropout";
  c.inputs = {{"x", shape}};
  c.build = [](Graph& graph, const std::vector<Tensor>& in) {
    const Graph::Scope scope(graph, "layer_3");
    return ops::dropout(in[0], {.rate = 0.25, .seed = 5, .name = "mask"});
  };
  c.reference = [](const Values& values) {
    std::vector<double> y;
    const auto key = stream_key(5, hash_text("layer_3/mask"));
    for (std::size_t i = 0; i < 35; ++i) {
      const bool keep = random_word(key, 1, i) >= 0.25 * 4294967296.0;
      y.push_back(keep ? values.at("x")[i] / 0.75 : 0);
    }
    return y;
  };
  check_op(c);
}

TEST_CASE("micro-batches draw the rows of the whole step's mask") {
  const auto masked = [](std::int64_t rows, std::int64_t micro) {
    VariableSet variables;
    Graph graph("op", variables);
    const Tensor x = graph.input("x", {Shape{{"batch", rows}, {"m", 3}}, DType::f64});
    graph.fetch("y", ops::dropout(x, {.rate = 0.5, .seed = 9, .batch_total = 6}));
    SimulatedRun run(variables, {&graph}, {});
    kernels::Feeds feeds;
    feeds.step = 4;
    feeds.micro = micro;
    run.run("op", {{"x", std::vector<double>(static_cast<std::size_t>(rows * 3), 1.0)}}, feeds);
    return run.fetch("op", "y");
  };
  const auto whole = masked(6, 0);
  std::vector<double> pieces;
  for (std::int64_t micro = 0; micro < 3; ++micro)
    for (double value : masked(2, micro)) pieces.push_back(value);
  CHECK(pieces == whole);
}

TEST_CASE("no dropout is no operation") {
  VariableSet variables;
  Graph graph("op", variables);
  const Tensor x = graph.input("x", {Shape{{"n", 3}}, DType::f32});
  CHECK(ops::dropout(x, {.rate = 0}) == x);
}
