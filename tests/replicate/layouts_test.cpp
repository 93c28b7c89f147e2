// SPDX-License-Identifier: BSD-3-Clause
// A small Transformer with sizes that divide by nothing trains alike on every mesh.
#include <cmath>

#include "support/apart.hpp"
#include "support/catch.hpp"
#include "support/small_training.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

models::TransformerConfig small_model() {
  auto config = SmallTraining::config(11);
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

/// Losses and gradient norms of `steps` steps, then some weights.
std::vector<double> train(const models::TransformerConfig& config, const optim::OptimConfig& optim,
                          const replicate::TaskConfig& task, const plan::PlanOptions& options,
                          int steps) {
  const SmallTraining training(config, optim, task);
  SimulatedRun run(training.task().variables(), training.task().graphs(), options);
  auto curve = training.run(run.executor(), steps);
  for (const char* name : {"output", "embedding", "layer_1/attention/key", "layer_0/ffn/down"}) {
    if (training.task().variables().find(name) < 0) continue;
    const auto values = run.variable(name);
    curve.insert(curve.end(), values.begin(), values.end());
  }
  return curve;
}

plan::PlanOptions options(const char* mesh, const char* rules, const char* shard = "") {
  return SmallTraining::options(mesh, rules, shard);
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
      worst = test::worse(worst, std::abs(found[i] - expected[i]));
    CHECK(worst < tolerance);
  }
}

replicate::TaskConfig task(DType dtype, std::int64_t micro_batches = 1) {
  replicate::TaskConfig config;
  config.batch = SmallTraining::kBatch;
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
