// SPDX-License-Identifier: BSD-3-Clause
// A convolutional net over pictures whose sides divide by nothing trains alike on every mesh, the
// picture cut or whole, its running statistics included.
#include <cmath>
#include <random>

#include "support/catch.hpp"
#include "support/simulated_run.hpp"
#include "tessera/models/convnet.hpp"
#include "tessera/replicate/task.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

constexpr std::int64_t kBatch = 6, kHeight = 11, kWidth = 9, kClasses = 4;

models::ConvNetConfig small_model(bool batch_norm) {
  models::ConvNetConfig config;
  config.height = kHeight;
  config.width = kWidth;
  config.filters = 3;
  config.kernel = 4;
  config.hidden = 5;
  config.classes = kClasses;
  config.batch_norm = batch_norm;
  return config;
}

Values make_rows(std::uint64_t step, std::int64_t rows) {
  std::mt19937 random(static_cast<unsigned>(step));
  std::normal_distribution<double> normal;
  Values values;
  for (std::int64_t i = 0; i < rows * kHeight * kWidth; ++i)
    values["image"].push_back(static_cast<float>(normal(random)));
  for (std::int64_t i = 0; i < rows; ++i) {
    values["label"].push_back(static_cast<double>(random() % kClasses));
    values["weights"].push_back(1);
  }
  return values;
}

/// Losses of some steps on the same rows, in one or two micro-batches, the loss and accuracy of an
/// evaluation, then some variables.
std::vector<double> train(bool batch_norm, std::int64_t micro_batches,
                          const plan::PlanOptions& options) {
  models::ConvNet model(small_model(batch_norm));
  optim::OptimConfig optim;
  replicate::TaskConfig config;
  config.batch = kBatch;
  config.micro_batches = micro_batches;
  config.dtype = DType::f64;
  replicate::Task task(model, optim, config);
  SimulatedRun run(task.variables(), task.graphs(), options);
  run.executor().initialize(7);
  std::vector<double> curve;
  kernels::Feeds feeds;
  for (int step = 1; step <= 4; ++step) {
    feeds.step = step;
    feeds.values = {{"inverse_weight", 1.0 / kBatch}, {"lr", 0.02}, {"step", double(step)}};
    double loss = 0;
    for (std::int64_t micro = 0; micro < micro_batches; ++micro) {
      feeds.micro = micro;
      const std::string section = micro == 0 ? "micro" : "micro_next";
      run.run(section, make_rows(static_cast<std::uint64_t>(micro), kBatch / micro_batches), feeds);
      loss += run.fetch(section, "loss")[0];
    }
    run.run("update", {}, feeds);
    curve.push_back(loss);
  }
  run.run("eval", make_rows(99, kBatch / micro_batches), feeds);
  curve.push_back(run.fetch("eval", "loss")[0]);
  curve.push_back(run.fetch("eval", "metric/accuracy")[0]);
  for (const char* name : {"stage_0/conv", "stage_1/norm/scale", "stage_0/norm/running_mean",
                           "stage_1/norm/running_variance", "hidden"}) {
    if (task.variables().find(name) < 0) continue;
    const auto values = run.variable(name);
    curve.insert(curve.end(), values.begin(), values.end());
  }
  return curve;
}

void check_alike(bool batch_norm, std::int64_t micro_batches) {
  const auto expected = train(batch_norm, micro_batches, {});
  CHECK(expected[3] < expected[0]);
  const std::string picture = "batch:batch, height:rows, width:cols";
  for (const auto& [mesh, rules] : {std::pair{"rows:2", picture},
                                    {"cols:2", picture},
                                    {"rows:2,cols:2", picture},
                                    {"rows:4", picture},
                                    {"rows:8", picture},
                                    {"batch:2,rows:2,cols:2", picture},
                                    {"cols:3,rows:2", picture},
                                    {"m:2", std::string("filters_0:m, hidden:m")},
                                    {"m:3", std::string("filters_1:m, classes:m")},
                                    {"k:2", std::string("kernel_height:k")},
                                    {"rows:2,m:2", "height:rows, filters_1:m"}}) {
    plan::PlanOptions options;
    options.mesh = MeshShape::parse(mesh, 0);
    options.layout = Layout::parse(rules);
    // A mesh need not have all dims that the rules name.
    std::vector<Layout::Rule> kept;
    for (const auto& rule : options.layout.rules())
      if (options.mesh.find(rule.second)) kept.push_back(rule);
    options.layout = Layout(kept);
    INFO(mesh << " under " << options.layout.to_string() << ", batch norm " << batch_norm);
    const auto found = train(batch_norm, micro_batches, options);
    REQUIRE(found.size() == expected.size());
    double worst = 0;
    for (std::size_t i = 0; i < found.size(); ++i)
      worst = std::max(worst, std::abs(found[i] - expected[i]) / (1 + std::abs(expected[i])));
    CHECK(worst < 1e-9);
  }
}

}  // namespace

TEST_CASE("a convolutional net trains alike on every mesh") {
  check_alike(false, 1);
}

TEST_CASE("so does one with batch norm, its running statistics too") {
  check_alike(true, 1);
  check_alike(true, 2);
}
