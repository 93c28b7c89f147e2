// SPDX-License-Identifier: BSD-3-Clause
// A small Transformer with sizes that divide by nothing trains alike on every mesh.
#include <cmath>
#include <random>

#include "support/catch.hpp"
#include "support/simulated_run.hpp"
#include "tessera/models/transformer.hpp"
#include "tessera/optim/schedule.hpp"
#include "tessera/replicate/task.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

constexpr std::int64_t kBatch = 6, kLength = 5, kVocab = 11;

models::TransformerConfig small_model() {
  models::TransformerConfig config;
  config.layers = 2;
  config.d_model = 6;
  config.d_ff = 7;
  config.heads = 3;
  config.d_kv = 2;
  config.vocab = kVocab;
  config.max_length = kLength;
  config.dropout = 0.2;
  config.label_smoothing = 0.1;
  config.z_loss = 1e-3;
  return config;
}

optim::OptimConfig small_optim() {
  optim::OptimConfig config;
  config.lr = 0.01;
  config.clip_norm = 0.5;
  config.weight_decay = 0.1;
  return config;
}

/// Rows of random tokens; some targets have weight 0.
Values make_rows(std::uint64_t step) {
  std::mt19937 random(static_cast<unsigned>(step));
  Values rows;
  for (std::int64_t i = 0; i < kBatch * kLength; ++i) {
    rows["tokens"].push_back(static_cast<double>(random() % kVocab));
    rows["targets"].push_back(static_cast<double>(random() % kVocab));
    rows["weights"].push_back(random() % 4 == 0 ? 0 : 1);
  }
  return rows;
}

Values part_of(const Values& rows, std::int64_t micro, std::int64_t count) {
  const std::size_t size = static_cast<std::size_t>(kBatch * kLength / count);
  Values part;
  for (const auto& [name, values] : rows) {
    const auto first = values.begin() + static_cast<std::ptrdiff_t>(size) * micro;
    part[name] = {first, first + static_cast<std::ptrdiff_t>(size)};
  }
  return part;
}

/// Losses and gradient norms of `steps` steps, then a weight.
std::vector<double> train(const models::TransformerConfig& config, const optim::OptimConfig& optim,
                          replicate::TaskConfig task_config, const plan::PlanOptions& options,
                          int steps) {
  models::Transformer model(config);
  task_config.batch = kBatch;
  task_config.length = kLength;
  task_config.seed = 7;
  replicate::Task task(model, optim, task_config);
  SimulatedRun run(task.variables(), task.graphs(), options);
  run.executor().initialize(7);
  std::vector<double> curve;
  for (int step = 1; step <= steps; ++step) {
    const Values rows = make_rows(static_cast<std::uint64_t>(step));
    double weight = 0, loss = 0;
    for (double w : rows.at("weights")) weight += w;
    kernels::Feeds feeds;
    feeds.step = step;
    feeds.values = {{"inverse_weight", 1 / weight},
                    {"lr", optim::learning_rate(optim, step)},
                    {"step", static_cast<double>(step)}};
    for (std::int64_t micro = 0; micro < task_config.micro_batches; ++micro) {
      feeds.micro = micro;
      const std::string section = micro == 0 ? "micro" : "micro_next";
      run.run(section, part_of(rows, micro, task_config.micro_batches), feeds);
      loss += run.fetch(section, "loss")[0];
    }
    run.run("update", {}, feeds);
    REQUIRE(run.fetch("update", "finite")[0] == 1);
    curve.push_back(loss);
    curve.push_back(run.fetch("update", "grad_norm")[0]);
  }
  for (const char* name : {"output", "embedding", "layer_1/attention/key", "layer_0/ffn/down"}) {
    if (task.variables().find(name) < 0) continue;
    const auto values = run.variable(name);
    curve.insert(curve.end(), values.begin(), values.end());
  }
  return curve;
}

plan::PlanOptions options(const char* mesh, const char* rules, const char* shard = "") {
  plan::PlanOptions options;
  options.mesh = MeshShape::parse(mesh, 0);
  options.layout = Layout::parse(rules);
  options.shard = shard;
  return options;
}

const char* const kModelRules = "vocab:model,d_ff:model,heads:model";
const char* const kBothRules = "batch:batch,vocab:model,d_ff:model,heads:model";

const std::vector<plan::PlanOptions>& meshes() {
  static const std::vector<plan::PlanOptions> all = {
      options("batch:2", "batch:batch"),
      options("batch:3", "batch:batch"),
      options("batch:4", "batch:batch"),
      options("batch:8", "batch:batch"),
      options("model:2", kModelRules),
      options("model:4", kModelRules),
      options("model:3", "d_model:model"),
      options("seq:2", "length:seq"),
      options("batch:2,model:2", kBothRules),
      options("batch:4,model:2", kBothRules),
      options("batch:2,model:2,seq:2", "batch:batch,vocab:model,d_ff:model,heads:model,length:seq"),
      options("batch:2", "batch:batch", "batch"),
      options("batch:3,model:2", kBothRules, "batch"),
      options("batch:2,model:4", kBothRules, "batch"),
  };
  return all;
}

void check_alike(const models::TransformerConfig& config, const optim::OptimConfig& optim,
                 const replicate::TaskConfig& task, int steps, double tolerance,
                 const std::vector<plan::PlanOptions>& on = meshes()) {
  const auto expected = train(config, optim, task, {}, steps);
  CHECK(expected[0] > 1.5);  // about log 11
  for (const auto& mesh : on) {
    INFO(mesh.mesh.to_string() << " under " << mesh.layout.to_string() << " shard " << mesh.shard);
    const auto found = train(config, optim, task, mesh, steps);
    REQUIRE(found.size() == expected.size());
    double worst = 0;
    for (std::size_t i = 0; i < found.size(); ++i)
      worst = std::max(worst, std::abs(found[i] - expected[i]));
    CHECK(worst < tolerance);
  }
}

replicate::TaskConfig task(DType dtype, std::int64_t micro_batches = 1) {
  replicate::TaskConfig config;
  config.dtype = dtype;
  config.micro_batches = micro_batches;
  return config;
}

}  // namespace

TEST_CASE("20 steps are equal on every mesh in f64, dropout on") {
  check_alike(small_model(), small_optim(), task(DType::f64), 20, 1e-9);
}

TEST_CASE("f32 differs by round-off alone") {
  check_alike(small_model(), small_optim(), task(DType::f32), 5, 1e-4);
}

TEST_CASE("rotary positions, grouped keys, gated layers, RMS norms, tied table") {
  auto config = small_model();
  config.heads = 6;
  config.kv_heads = 3;
  config.positions = "rotary";
  config.activation = "swiglu";
  config.norm = "rms";
  config.tied = true;
  config.bias = false;
  check_alike(config, small_optim(), task(DType::f64), 5, 1e-9);
}

TEST_CASE("everything in a block with the length cut") {
  const std::vector<plan::PlanOptions> cut = {
      options("model:2", "length:model"),
      options("model:3", "length:model"),
      options("model:4", "length:model"),
      options("model:8", "length:model"),  // more ranks than positions
      options("batch:2,model:2", "batch:batch,length:model"),
      options("batch:2,model:2", "length:model,heads:batch"),
  };
  for (const char* attention : {"gather", "ring"}) {
    auto config = small_model();
    config.attention = attention;
    check_alike(config, small_optim(), task(DType::f64), 20, 1e-9, cut);
  }
  auto config = small_model();
  config.heads = 6;
  config.kv_heads = 3;
  config.positions = "relative";
  config.relative_buckets = config.relative_distance = 4;
  config.window = 3;
  check_alike(config, small_optim(), task(DType::f64), 20, 1e-9, cut);
  config.positions = "rotary";
  config.window = 0;
  check_alike(config, small_optim(), task(DType::f64), 5, 1e-9, cut);
}

TEST_CASE("relative positions, a window, keys shared by groups") {
  auto config = small_model();
  config.heads = 6;
  config.kv_heads = 3;
  config.positions = "relative";
  config.relative_buckets = config.relative_distance = 4;
  config.window = 3;
  check_alike(config, small_optim(), task(DType::f64, 2), 5, 1e-9);
}

TEST_CASE("sinusoid positions, Adafactor, micro-batches") {
  auto config = small_model();
  config.positions = "sinusoid";
  config.activation = "gelu_tanh";
  auto optim = small_optim();
  optim.name = "adafactor";
  optim.factored_size = 6;
  optim.ema = 0.9;
  check_alike(config, optim, task(DType::f64, 3), 5, 1e-9);
}

TEST_CASE("micro-batches change nothing: the loss is weighted by tokens, dropout is the step's") {
  const auto whole = train(small_model(), small_optim(), task(DType::f64), {}, 4);
  for (std::int64_t parts : {2, 3, 6}) {
    const auto found = train(small_model(), small_optim(), task(DType::f64, parts), {}, 4);
    for (std::size_t i = 0; i < whole.size(); ++i) CHECK(std::abs(found[i] - whole[i]) < 1e-10);
  }
}

TEST_CASE("bf16 stays near f32") {
  auto config = small_model();
  config.dropout = 0;
  const auto wide = train(config, small_optim(), task(DType::f32), {}, 10);
  for (const auto& mesh : {plan::PlanOptions{}, meshes()[0], meshes()[8], meshes()[12]}) {
    const auto narrow = train(config, small_optim(), task(DType::bf16), mesh, 10);
    for (std::size_t i = 0; i < 20; i += 2) CHECK(narrow[i] == Approx(wide[i]).epsilon(0.01));
  }
}
