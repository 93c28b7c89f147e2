// SPDX-License-Identifier: BSD-3-Clause
// Gradients of gradients of whole models: products of the Hessian with a vector, against
// differences of gradients, on every mesh.
#include <algorithm>
#include <cmath>
#include <random>

#include "support/apart.hpp"
#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/small_training.hpp"
#include "tessera/base/error.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/install.hpp"
#include "tessera/ops/reduce.hpp"
#include "tessera/ops/shape_ops.hpp"
#include "tessera/optim/update.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

constexpr std::int64_t kRows = 4, kLength = 5, kVocab = 11;

/// Section "curvature": the gradient of a language model's loss as "g/<weight>", and the Hessian
/// times the vectors given as "v/<weight>" as "h/<weight>", where it is not zero.
struct Curvature {
  VariableSet variables;
  Graph graph{"curvature", variables};
  std::vector<std::string> weights, curved;

  explicit Curvature(const models::TransformerConfig& config,
                     std::vector<std::string> recompute = {}) {
    ops::install();
    models::Transformer model(config);
    graph.set_recompute(std::move(recompute));
    replicate::Batch batch;
    for (const auto& input : model.inputs(kRows, kLength))
      batch.inputs[input.name] = graph.input(
          input.name, {input.spec.shape, input.spec.dtype == DType::i32 ? DType::i32 : DType::f64});
    batch.rows = batch.total_rows = kRows;
    batch.dtype = DType::f64;
    batch.seed = 3;
    const Tensor loss = model.loss(graph, batch);
    weights = optim::trainable_weights(variables);
    std::vector<Tensor> targets, terms;
    for (const auto& weight : weights) targets.push_back(graph.read(weight));
    const auto slopes = gradients(loss, targets);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      graph.fetch("g/" + weights[i], slopes[i]);
      const Tensor vector = graph.input("v/" + weights[i], {targets[i].shape(), DType::f64});
      terms.push_back(ops::reduce_sum(ops::multiply(slopes[i], vector), Shape{}));
    }
    const auto products = gradients(ops::add_n(terms), targets);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (!products[i]) continue;
      graph.fetch("h/" + weights[i], products[i]);
      curved.push_back(weights[i]);
    }
  }

  Values inputs() const {
    std::mt19937 random(5);
    std::normal_distribution<double> normal;
    Values values;
    for (std::int64_t i = 0; i < kRows * kLength; ++i) {
      values["tokens"].push_back(static_cast<double>(random() % kVocab));
      values["targets"].push_back(static_cast<double>(random() % kVocab));
      values["weights"].push_back(i == 7 ? 0 : 1);
    }
    for (const auto& weight : weights) {
      auto& vector = values["v/" + weight];
      const auto& spec = variables[variables.find(weight)].spec;
      for (std::int64_t i = 0; i < spec.shape.size(); ++i) vector.push_back(normal(random));
    }
    return values;
  }
};

/// All fetched tensors of the names.
std::vector<double> fetch_all(SimulatedRun& run, const std::string& prefix,
                              const std::vector<std::string>& names) {
  std::vector<double> all;
  for (const auto& name : names) {
    const auto part = run.fetch("curvature", prefix + name);
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

/// First values; embeddings near 1, since norms of small numbers bend too much for differences.
void initialize(SimulatedRun& run) {
  run.executor().initialize(7);
  for (const char* name : {"embedding", "positions"}) {
    if (std::none_of(run.program().variables.begin(), run.program().variables.end(),
                     [&](const auto& stored) { return stored.variable.name == name; }))
      continue;
    auto values = run.variable(name);
    for (double& value : values) value *= 30;
    run.set_variable(name, values);
  }
}

double greatest(const std::vector<double>& values) {
  double most = 0;
  for (double value : values) most = std::max(most, std::abs(value));
  return most;
}

void check_equal(const std::vector<double>& found, const std::vector<double>& expected,
                 double tolerance) {
  REQUIRE(found.size() == expected.size());
  double worst = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double difference = std::abs(found[i] - expected[i]);
    worst = test::worse(worst, difference);
  }
  CHECK(worst < tolerance * greatest(expected));
}

/// (g(w + e v) - g(w - e v)) / 2 e of the curved weights.
std::vector<double> differences(SimulatedRun& run, const Curvature& model, const Values& inputs) {
  constexpr double kStep = 1e-6;
  std::vector<double> slopes[2];
  for (const int side : {0, 1}) {
    for (const auto& weight : model.weights) {
      auto values = run.variable(weight);
      const auto& vector = inputs.at("v/" + weight);
      const double step = side == 0 ? -kStep : 2 * kStep;  // the second starts from the first
      for (std::size_t i = 0; i < values.size(); ++i) values[i] += step * vector[i];
      run.set_variable(weight, values);
    }
    run.run("curvature", inputs);
    slopes[side] = fetch_all(run, "g/", model.curved);
  }
  for (std::size_t i = 0; i < slopes[0].size(); ++i)
    slopes[1][i] = (slopes[1][i] - slopes[0][i]) / (2 * kStep);
  return slopes[1];
}

void check_model(const char* name, const models::TransformerConfig& config,
                 const std::vector<std::pair<const char*, const char*>>& layouts,
                 std::vector<std::string> recompute = {}) {
  INFO(name);
  const Curvature model(config, std::move(recompute));
  const Values inputs = model.inputs();
  SimulatedRun one(model.variables, {&model.graph}, {});
  initialize(one);
  one.run("curvature", inputs);
  const auto products = fetch_all(one, "h/", model.curved);
  CHECK(greatest(products) > 1e-3);
  for (const auto& [mesh, rules] : layouts) {
    INFO("mesh '" << mesh << "' rules '" << rules << "'");
    SimulatedRun run(model.variables, {&model.graph}, layout(mesh, rules));
    initialize(run);
    run.run("curvature", inputs);
    check_equal(fetch_all(run, "h/", model.curved), products, 1e-9);
  }
  check_equal(products, differences(one, model, inputs), 1e-6);
}

constexpr std::pair<const char*, const char*> kBoth{
    "batch:2,model:2", "batch:batch,vocab:model,d_ff:model,heads:model"};

}  // namespace

TEST_CASE("the Hessian of a Transformer times a vector") {
  auto config = SmallTraining::config(kVocab);
  config.label_smoothing = 0.1;
  config.z_loss = 0.01;
  const std::vector<std::pair<const char*, const char*>> layouts{
      kBoth, {"x:3", "batch:x"}, {"x:2", "d_model:x"}, {"x:2", "length:x"}};
  check_model("with dropout", config, layouts);
  check_model("computed again", config, {kBoth}, {"*"});
}

TEST_CASE("the Hessian of other blocks times a vector") {
  auto config = SmallTraining::config(kVocab);
  config.norm = "rms";
  config.activation = "swiglu";
  config.positions = "rotary";
  config.heads = 4;
  config.kv_heads = 2;
  check_model("gated, grouped heads", config, {{"x:2", "heads:x,vocab:x"}});
  config.positions = "relative";
  config.relative_buckets = 4;
  config.window = 3;
  config.activation = "gelu_tanh";
  check_model("by distance, in a window", config, {{"x:2", "length:x"}});
  config = SmallTraining::config(kVocab);
  config.activation = "silu";
  config.moe.experts = 3;
  config.moe.choices = 2;
  config.moe.z_loss = 0.01;
  check_model("experts", config, {{"x:2", "batch:x,experts:x"}});
}

TEST_CASE("an operation without a gradient is named") {
  VariableSet variables;
  Graph graph("g", variables);
  const Tensor x = graph.input("x", {Shape{{"n", 3}}, DType::f64});
  const Tensor y = ops::select(x, "n", "position");
  CHECK_THROWS_WITH(gradients(y, {x}), Catch::Contains("'select' has no gradient"));
}
