// SPDX-License-Identifier: BSD-3-Clause
// A Transformer whose layers are put on logical devices trains as on one rank, whatever the stages.
#include <cmath>
#include <numeric>

#include "support/apart.hpp"
#include "support/catch.hpp"
#include "support/small_training.hpp"
#include "tessera/plan/report.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

constexpr std::int64_t kBatch = 20;

models::TransformerConfig small_model(std::int64_t stages = 4) {
  auto config = SmallTraining::config(11);
  config.layers = 5;
  config.stages = stages;
  config.label_smoothing = 0.1;
  config.tied = true;
  return config;
}

optim::OptimConfig small_optim() {
  optim::OptimConfig config;
  config.lr = 0.002;
  config.clip_norm = 0.5;
  config.weight_decay = 0.1;
  config.ema = 0.9;
  config.freeze = {"layer_3/ffn_norm/*"};
  return config;
}

plan::PlanOptions on(const std::string& mesh, const std::string& rules = "batch:batch",
                     const std::string& shard = "") {
  return SmallTraining::options(mesh, rules, shard);
}

replicate::TaskConfig task_config(std::int64_t micro_batches, std::vector<std::string> recompute) {
  replicate::TaskConfig config;
  config.batch = kBatch;
  config.dtype = DType::f64;
  config.micro_batches = micro_batches;
  config.recompute = std::move(recompute);
  return config;
}

/// A model's training on simulated ranks.
struct Training {
  Training(const models::TransformerConfig& config, const optim::OptimConfig& optim,
           std::int64_t micro_batches, const plan::PlanOptions& options,
           std::vector<std::string> recompute = {})
      : training(config, optim, task_config(micro_batches, std::move(recompute))),
        run(training.task().variables(), training.task().graphs(), options) {}

  /// Losses and gradient norms of some steps, then some weights and averages.
  std::vector<double> curve(int steps) {
    auto curve = training.run(run.executor(), steps);
    for (const char* name : {"embedding", "layer_1/attention/key", "layer_4/ffn/down",
                             "ema/embedding", "optimizer/m/layer_2/ffn/up"}) {
      if (training.task().variables().find(name) < 0) continue;
      const auto values = run.variable(name);
      curve.insert(curve.end(), values.begin(), values.end());
    }
    return curve;
  }

  SmallTraining training;
  SimulatedRun run;
};

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    worst = test::worse(worst, std::abs(a[i] - b[i]));
  }
  return worst;
}

}  // namespace

TEST_CASE("20 steps on stages are those of one rank") {
  for (const int micro_batches : {1, 2, 4, 5}) {
    const auto expected =
        Training(small_model(), small_optim(), micro_batches, plan::PlanOptions()).curve(20);
    CHECK(expected[0] > 1.5);  // about log 11
    for (const char* mesh : {"stage:1", "stage:2", "stage:3", "stage:4", "stage:2,batch:2",
                             "batch:2,stage:3", "stage:4,batch:2"}) {
      // Two meshes for all numbers of micro-batches, the others for odd ones, so as to be short.
      const std::string shape = mesh;
      if (micro_batches % 2 == 0 && shape != "stage:3" && shape != "stage:4,batch:2") continue;
      const bool cut = shape.find("batch") != std::string::npos;
      INFO(mesh << " with " << micro_batches << " micro-batches");
      const auto options = on(shape, cut ? "batch:batch" : "", cut ? "batch" : "");
      CHECK(distance(Training(small_model(), small_optim(), micro_batches, options).curve(20),
                     expected) < 1e-9);
    }
  }
}

TEST_CASE("regions are computed again, and a stage may be split by other rules") {
  const std::vector<std::string> all{"*"};
  const auto expected = Training(small_model(), small_optim(), 2, {}, all).curve(5);
  CHECK(distance(Training(small_model(), small_optim(), 2, on("stage:3", ""), all).curve(5),
                 expected) < 1e-9);
  for (const auto& [mesh, rules] :
       {std::pair("stage:2,model:2", "vocab:model,d_ff:model,heads:model"),
        {"model:3,stage:2", "d_model:model"},
        {"seq:2,stage:4", "length:seq"}}) {
    INFO(mesh << " under " << rules);
    CHECK(distance(Training(small_model(), small_optim(), 2, on(mesh, rules)).curve(5), expected) <
          1e-9);
  }
}

TEST_CASE("losses of experts on several stages are added up") {
  auto config = small_model(2);
  config.layers = 2;
  config.moe.experts = 2;
  config.moe.every = 1;
  auto optim = small_optim();
  optim.freeze = {};
  const auto expected = Training(config, optim, 2, {}).curve(3);
  CHECK(distance(Training(config, optim, 2, on("stage:2", "")).curve(3), expected) < 1e-9);
}

TEST_CASE("what belongs to a weight lives on its stage") {
  const auto held = [](const Training& training, const char* name) {
    for (const auto& stored : training.run.program().variables)
      if (stored.variable.name == name) return program::stage_of(stored.placement);
    return -2;
  };
  const Training training(small_model(), small_optim(), 2, on("stage:4", ""));
  CHECK(held(training, "embedding") == 0);
  CHECK(held(training, "ema/embedding") == 0);
  CHECK(held(training, "gradient/layer_4/ffn/down") == 3);
  CHECK(held(training, "layer_2/ffn/down") == 2);
}
