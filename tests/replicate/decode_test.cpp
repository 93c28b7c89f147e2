// SPDX-License-Identifier: BSD-3-Clause
// Logits by caches of keys and values are those that computing the whole text anew gives.
#include <cmath>
#include <random>

#include "support/apart.hpp"
#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/simulated_run.hpp"
#include "tessera/models/transformer.hpp"
#include "tessera/ops/shape_ops.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

constexpr std::int64_t kRows = 3, kLength = 7, kVocab = 11;

models::TransformerConfig small_model() {
  models::TransformerConfig config;
  config.layers = 2;
  config.d_model = 6;
  config.d_ff = 7;
  config.heads = 3;
  config.d_kv = 2;
  config.vocab = kVocab;
  config.max_length = kLength + 2;
  config.dropout = 0.2;
  return config;
}

std::vector<double> random_tokens() {
  std::mt19937 random(3);
  std::vector<double> tokens;
  for (std::int64_t i = 0; i < kRows * kLength; ++i)
    tokens.push_back(static_cast<double>(random() % kVocab));
  return tokens;
}

const std::vector<plan::PlanOptions>& meshes() {
  static const std::vector<plan::PlanOptions> all = {
      layout("batch:2", "batch:batch"),
      layout("batch:4", "batch:batch"),
      layout("model:2", "vocab:model,d_ff:model,heads:model"),
      layout("model:4", "vocab:model,d_ff:model,heads:model"),
      layout("model:3", "d_model:model"),
      layout("model:2", "d_kv:model"),
      layout("seq:2", "memory:seq"),
      layout("seq:3", "length:seq,memory:seq"),
      layout("batch:2,model:2", "batch:batch,vocab:model,d_ff:model,heads:model"),
      layout("model:2,seq:2", "heads:model,vocab:model,memory:seq"),
      layout("batch:2,model:2,seq:2", "batch:batch,heads:model,vocab:model,memory:seq"),
  };
  return all;
}

/// The sections prefill and decode of a Task, with the logits that it draws from.
struct Sections {
  VariableSet variables;
  Graph fill{"prefill", variables};
  Graph step{"decode", variables};

  Sections(models::Transformer& model, DType dtype) {
    replicate::Batch batch;
    batch.rows = batch.total_rows = kRows;
    batch.mode = replicate::Mode::eval;
    batch.dtype = dtype;
    const Dim rows{"batch", kRows};
    batch.inputs["tokens"] = fill.input("tokens", {Shape{rows, {"length", kLength}}, DType::i32});
    batch.caching = {.phase = nn::Caching::Phase::fill, .length = kLength};
    fill.fetch("logits", ops::select(model.logits(fill, batch), "length", "last"));
    batch.inputs["tokens"] = step.input("tokens", {Shape{rows}, DType::i32});
    batch.caching.phase = nn::Caching::Phase::step;
    step.fetch("logits", model.logits(step, batch));
  }
  std::vector<const Graph*> graphs() const { return {&fill, &step}; }
};

/// Biases by distance are zero at first: gives them values.
void set_biases(SimulatedRun& run, const VariableSet& variables) {
  for (const auto& variable : variables) {
    if (!variable.name.ends_with("relative_bias")) continue;
    std::vector<double> values;
    for (std::int64_t i = 0; i < variable.spec.shape.size(); ++i)
      values.push_back(0.25 * static_cast<double>(i * i % 17) - 2);
    run.set_variable(variable.name, values);
  }
}

/// Logits after each position from 2 on, by filling anew or by adding one position at a time.
std::vector<double> logits(const Sections& sections, const plan::PlanOptions& options,
                           bool by_cache) {
  SimulatedRun run(sections.variables, sections.graphs(), options);
  run.executor().initialize(7);
  set_biases(run, sections.variables);
  const auto tokens = random_tokens();
  std::vector<double> result;
  for (std::int64_t at = 2; at < kLength; ++at) {
    kernels::Feeds feeds;
    if (by_cache && at > 2) {
      feeds.values["position"] = static_cast<double>(at);
      std::vector<double> column;
      for (std::int64_t row = 0; row < kRows; ++row)
        column.push_back(tokens[static_cast<std::size_t>(row * kLength + at)]);
      run.run("decode", {{"tokens", column}}, feeds);
    } else {
      // What follows the last known token must not matter.
      auto known = tokens;
      for (std::size_t i = 0; i < known.size(); ++i)
        if (static_cast<std::int64_t>(i) % kLength > at) known[i] = 0;
      feeds.values["last"] = static_cast<double>(at);
      run.run("prefill", {{"tokens", known}}, feeds);
    }
    const auto now = run.fetch(by_cache && at > 2 ? "decode" : "prefill", "logits");
    REQUIRE(now.size() == kRows * kVocab);
    result.insert(result.end(), now.begin(), now.end());
  }
  return result;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(a[i] - b[i]);
    worst = test::worse(worst, difference);
  }
  return worst;
}

void check_caches(const models::TransformerConfig& config, DType dtype, double tolerance,
                  const std::vector<plan::PlanOptions>& on = meshes()) {
  models::Transformer model(config);
  const Sections sections(model, dtype);
  const auto expected = logits(sections, {}, false);
  CHECK(largest_difference(expected, std::vector<double>(expected.size())) > 0.01);
  CHECK(largest_difference(logits(sections, {}, true), expected) < tolerance);
  for (const auto& mesh : on) {
    INFO(mesh.mesh.to_string() << " under " << mesh.layout.to_string());
    CHECK(largest_difference(logits(sections, mesh, false), expected) < tolerance);
    CHECK(largest_difference(logits(sections, mesh, true), expected) < tolerance);
  }
}

}  // namespace

TEST_CASE("Logits by caches equal those of the whole text on every mesh") {
  auto config = small_model();
  for (const char* positions : {"learned", "sinusoid", "rotary", "none"}) {
    INFO(positions);
    config.positions = positions;
    config.tied = config.positions == "rotary";
    check_caches(config, DType::f64, 1e-12);
  }
}

TEST_CASE("Caches with grouped queries and gated layers") {
  auto config = small_model();
  config.heads = 4;
  config.kv_heads = 2;
  config.activation = "swiglu";
  config.norm = "rms";
  config.bias = false;
  check_caches(config, DType::f64, 1e-12);
}

TEST_CASE("Caches of which a window is seen") {
  auto config = small_model();
  config.window = 3;
  check_caches(config, DType::f64, 1e-12);
}

TEST_CASE("Caches with biases by distance") {
  auto config = small_model();
  config.heads = 4;
  config.kv_heads = 2;
  config.positions = "relative";
  for (const std::int64_t buckets : {4, 3}) {
    config.relative_buckets = buckets;
    config.relative_distance = buckets;
    check_caches(config, DType::f64, 1e-12);
  }
}

TEST_CASE("Caches of a model with experts that have room for all") {
  auto config = small_model();
  config.moe.experts = 4;
  config.moe.every = 2;
  config.moe.eval_capacity = 4;
  config.moe.jitter = 0.1;
  const std::vector<plan::PlanOptions> on = {
      layout("batch:2", "batch:batch,experts:batch"),
      layout("batch:3", "batch:batch"),
      layout("model:4", "experts:model,vocab:model"),
      layout("batch:2,model:2", "batch:batch,experts:batch,vocab:model,d_ff:model,heads:model"),
  };
  for (const std::int64_t choices : {1, 2}) {
    config.moe.choices = choices;
    check_caches(config, DType::f64, 1e-12, on);
  }
}

TEST_CASE("What stands behind a prompt takes no expert's place") {
  auto config = small_model();
  config.moe.experts = 2;
  config.moe.choices = 2;
  config.moe.eval_capacity = 0.5;
  models::Transformer model(config);
  const Sections sections(model, DType::f64);
  const auto after = [&](double padding, const plan::PlanOptions& mesh) {
    SimulatedRun run(sections.variables, sections.graphs(), mesh);
    run.executor().initialize(7);
    auto tokens = random_tokens();
    for (std::size_t i = 0; i < tokens.size(); ++i)
      if (static_cast<std::int64_t>(i) % kLength > 2) tokens[i] = padding;
    kernels::Feeds feeds;
    feeds.values["last"] = 2;
    run.run("prefill", {{"tokens", tokens}}, feeds);
    return run.fetch("prefill", "logits");
  };
  const auto expected = after(0, {});
  for (const double padding : {1.0, 2.0, 3.0, 4.0, 5.0}) {
    CHECK(largest_difference(after(padding, {}), expected) < 1e-12);
    CHECK(largest_difference(after(padding, layout("model:2", "experts:model")), expected) < 1e-12);
  }
}

TEST_CASE("Caches in f32 and bf16") {
  check_caches(small_model(), DType::f32, 1e-5);
  check_caches(small_model(), DType::bf16, 0.02);
}

TEST_CASE("A decoding step writes its keys in place and moves none of them") {
  models::Transformer model(small_model());
  const Sections sections(model, DType::f32);
  const auto program = plan::compile(sections.variables, sections.graphs(),
                                     layout("batch:2,seq:2", "batch:batch,memory:seq"));
  const auto& section = program.section("decode");
  const std::int64_t cache = 2 * 4 * 3 * 2 * 4;  // rows, positions, heads, d_kv, bytes of a tile
  int writes = 0;
  for (const auto& step : section.steps) {
    if (std::holds_alternative<program::RelayoutStep>(step))
      CHECK(section.buffers[static_cast<std::size_t>(program::reads_of(step)[0])].bytes < cache);
    const auto* kernel = std::get_if<program::KernelStep>(&step);
    if (!kernel || kernel->kernel != "write_at") continue;
    ++writes;
    const auto& from = section.buffers[static_cast<std::size_t>(kernel->inputs[0])];
    const auto& to = section.buffers[static_cast<std::size_t>(kernel->outputs[0])];
    CHECK(from.variable >= 0);
    CHECK(from.variable == to.variable);
  }
  CHECK(writes == 4);
}
