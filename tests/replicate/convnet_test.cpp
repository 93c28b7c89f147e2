// SPDX-License-Identifier: BSD-3-Clause
// A convolutional net over pictures whose sides divide by nothing trains alike on every mesh, the
// picture cut or whole, its running statistics included.
#include <cmath>
#include <random>

#include "support/apart.hpp"
#include "support/catch.hpp"
#include "support/simulated_run.hpp"
#include "tessera/models/convnet.hpp"
#include "tessera/replicate/task.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

constexpr std::int64_t kHeight = 11, kWidth = 9, kClasses = 4;

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

/// A batch in micro-batches of some places each: those behind its rows are filled up.
struct Rows {
  std::int64_t batch = 6;
  std::int64_t micro_batches = 1;
  std::int64_t padding = 0;  ///< places of the (only) micro-batch besides

  std::int64_t places() const { return (batch + micro_batches - 1) / micro_batches + padding; }
};

/// A micro-batch of the rows of number `seed`, filled up with noise of weight 0.
Values make_rows(unsigned seed, const Rows& rows, std::int64_t micro) {
  Values values;
  for (std::int64_t i = micro * rows.places(); i < (micro + 1) * rows.places(); ++i) {
    std::mt19937 random(1000 * seed + static_cast<unsigned>(i));
    std::normal_distribution<double> normal;
    for (std::int64_t k = 0; k < kHeight * kWidth; ++k)
      values["image"].push_back(static_cast<float>(normal(random)));
    values["label"].push_back(static_cast<double>(random() % kClasses));
    values["weights"].push_back(i < rows.batch ? 1 : 0);
  }
  return values;
}

/// Losses of some steps on the same rows, the loss and accuracy of an evaluation, then some
/// variables.
std::vector<double> train(bool batch_norm, const Rows& rows, const plan::PlanOptions& options) {
  models::ConvNet model(small_model(batch_norm));
  optim::OptimConfig optim;
  replicate::TaskConfig config;
  config.batch = rows.batch + rows.padding;
  config.micro_batches = rows.micro_batches;
  config.uneven = true;
  config.padded = rows.padding > 0;
  config.dtype = DType::f64;
  replicate::Task task(model, optim, config);
  SimulatedRun run(task.variables(), task.graphs(), options);
  run.executor().initialize(7);
  std::vector<double> curve;
  kernels::Feeds feeds;
  for (int step = 1; step <= 4; ++step) {
    feeds.step = step;
    feeds.values = {{"inverse_weight", 1.0 / static_cast<double>(rows.batch)},
                    {"lr", 0.02},
                    {"step", double(step)}};
    double loss = 0;
    for (std::int64_t micro = 0; micro < rows.micro_batches; ++micro) {
      feeds.micro = micro;
      const std::string section = micro == 0 ? "micro" : "micro_next";
      run.run(section, make_rows(0, rows, micro), feeds);
      loss += run.fetch(section, "loss")[0];
    }
    run.run("update", {}, feeds);
    curve.push_back(loss);
  }
  run.run("eval", make_rows(99, rows, 0), feeds);
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

void check_alike(bool batch_norm, const Rows& rows) {
  const auto expected = train(batch_norm, rows, {});
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
    CHECK(apart(train(batch_norm, rows, options), expected) < 1e-9);
  }
}

}  // namespace

TEST_CASE("a convolutional net trains alike on every mesh") {
  check_alike(false, {});
}

TEST_CASE("so does one with batch norm, its running statistics too") {
  check_alike(true, {});
  check_alike(true, {.micro_batches = 2});
  check_alike(true, {.padding = 2});
}

TEST_CASE("rows that fill up a batch leave batch norm alone") {
  const auto expected = train(true, {.batch = 5}, {});
  CHECK(apart(train(true, {.batch = 5, .padding = 3}, {}), expected) < 1e-9);
  // The last micro-batch has fewer rows, or none.
  const auto three = train(true, {.batch = 5, .micro_batches = 3}, {});
  CHECK(apart(train(true, {.batch = 5, .micro_batches = 4}, {}), three) < 1e-9);
}
