// SPDX-License-Identifier: BSD-3-Clause
// Residual nets over pictures whose sides divide by nothing train alike on every mesh,
// data-parallel, the picture cut, the filters cut; norms over all of the batch or over parts of it.
#include <cmath>
#include <limits>
#include <random>

#include "support/apart.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/layouts.hpp"
#include "support/simulated_run.hpp"
#include "tessera/base/error.hpp"
#include "tessera/models/resnet.hpp"
#include "tessera/nn/metrics.hpp"
#include "tessera/replicate/task.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

constexpr std::int64_t kBatch = 6, kHeight = 13, kWidth = 10, kChannels = 2, kClasses = 7;

models::ResNetConfig small_net(std::int64_t depth) {
  models::ResNetConfig config;
  config.depth = depth;
  config.blocks = {"1", "2"};
  config.height = kHeight;
  config.width = kWidth;
  config.channels = kChannels;
  config.filters = 3;
  config.classes = kClasses;
  config.label_smoothing = 0.1;
  return config;
}

/// The places of a batch; the last ones may only fill it up.
struct Rows {
  std::int64_t places = kBatch;
  std::int64_t padded = 0;

  std::int64_t filled() const { return places - padded; }
};

Values make_rows(unsigned step, const Rows& rows) {
  Values values;
  for (std::int64_t i = 0; i < rows.places; ++i) {
    std::mt19937 random(1000 * step + static_cast<unsigned>(i));
    std::normal_distribution<double> normal;
    for (std::int64_t k = 0; k < kHeight * kWidth * kChannels; ++k)
      values["image"].push_back(static_cast<float>(normal(random)));
    values["label"].push_back(static_cast<double>(random() % kClasses));
    values["weights"].push_back(i < rows.filled() ? 1 : 0);
  }
  return values;
}

replicate::TaskConfig task_config(const Rows& rows = {}) {
  replicate::TaskConfig config;
  config.batch = rows.places;
  config.padded = rows.padded > 0;
  config.dtype = DType::f64;
  return config;
}

/// Losses and gradient norms of `steps` steps, loss and metrics of an evaluation, then some
/// variables.
std::vector<double> train(const models::ResNetConfig& net, const std::string& mesh,
                          const std::string& rules, int steps, const Rows& rows = {}) {
  models::ResNet model(net);
  optim::OptimConfig optim;
  optim.name = "momentum";
  optim.weight_decay = 1e-3;
  replicate::Task task(model, optim, task_config(rows));
  SimulatedRun run(task.variables(), task.graphs(), layout(mesh, rules));
  run.executor().initialize(7);
  std::vector<double> curve;
  kernels::Feeds feeds;
  for (int step = 1; step <= steps; ++step) {
    feeds.step = step;
    feeds.values = {{"inverse_weight", 1.0 / static_cast<double>(rows.filled())},
                    {"lr", 0.02},
                    {"step", double(step)}};
    run.run("micro", make_rows(static_cast<unsigned>(step) % 4, rows), feeds);
    run.run("update", {}, feeds);
    curve.push_back(run.fetch("micro", "loss")[0]);
    curve.push_back(run.fetch("update", "grad_norm")[0]);
  }
  run.run("eval", make_rows(99, rows), feeds);
  for (const char* name : {"loss", "metric/top1", "metric/top5"})
    curve.push_back(run.fetch("eval", name)[0]);
  for (const char* name :
       {"stem/conv", "stage_0/block_0/middle_norm/running_mean", "stage_1/block_1/wide_norm/scale",
        "stage_1/block_0/shortcut_norm/running_variance", "classes"}) {
    const auto values = run.variable(name);
    curve.insert(curve.end(), values.begin(), values.end());
  }
  return curve;
}

}  // namespace

TEST_CASE("a net with bottlenecks trains alike on every mesh") {
  const auto expected = train(small_net(50), "", "", 20);
  CHECK(expected[38] < expected[0]);
  for (const auto& [mesh, rules] :
       {std::pair{"all:2", "batch:all"}, std::pair{"all:4", "batch:all"},
        std::pair{"rows:2", "height:rows"}, std::pair{"rows:2,cols:2", "height:rows, width:cols"},
        std::pair{"all:2,rows:3", "batch:all, height:rows"},
        std::pair{"m:2", "filters_0:m, middle_1:m, classes:m"}}) {
    INFO(mesh << " under " << rules);
    CHECK(apart(train(small_net(50), mesh, rules, 20), expected) < 1e-9);
  }
}

TEST_CASE("so does one of plain blocks for small pictures, and a batch that is filled up") {
  auto config = small_net(18);
  config.stem = "small";
  config.zero_init = false;
  const auto expected = train(config, "", "", 20, {.places = 7});
  for (const auto& [mesh, rules] :
       {std::pair{"", ""}, std::pair{"all:4", "batch:all"}, std::pair{"all:3", "batch:all"},
        std::pair{"rows:2,m:2", "height:rows, middle_1:m"}}) {
    INFO(mesh << " under " << rules);
    CHECK(apart(train(config, mesh, rules, 20, {.places = 9, .padded = 2}), expected) < 1e-9);
  }
}

TEST_CASE("norm statistics of parts of the batch do not depend on the number of ranks") {
  for (const std::int64_t groups : {2, 3}) {
    auto config = small_net(50);
    config.norm_groups = groups;
    const int steps = groups == 2 ? 20 : 5;
    const auto expected = train(config, "", "", steps);
    CHECK(apart(expected, train(small_net(50), "", "", steps)) > 1e-3);
    const Rows padded{.places = 12, .padded = 5};  // one part, or more, have no row
    const auto few = train(config, "", "", 5, padded);
    for (const auto& [mesh, rules] :
         {std::pair{"all:2", "batch:all, replica:all"},
          std::pair{"all:4", "batch:all, replica:all"}, std::pair{"all:2", "batch:all"},
          std::pair{"all:2,rows:2", "replica:all, height:rows"},
          std::pair{"all:2,r:2", "replica:all, replica_batch:r"}}) {
      INFO(groups << " groups, " << mesh << " under " << rules);
      CHECK(apart(train(config, mesh, rules, steps), expected) < 1e-9);
      CHECK(apart(train(config, mesh, rules, 5, padded), few) < 1e-9);
    }
  }
}

TEST_CASE("what a deck can get wrong of a residual net is named by its keys") {
  const auto message = [](const models::ResNetConfig& config) {
    models::ResNet model(config);
    return message_of([&] { replicate::Task task(model, {}, task_config()); });
  };
  auto config = small_net(50);
  CHECK(message(config).empty());
  config.norm_groups = 4;
  CHECK(message(config).find("model.norm_groups = 4 does not divide the 6") != std::string::npos);
  config = small_net(50);
  config.blocks = {"3", "2.5"};
  CHECK(message(config).find("model.blocks: '2.5'") != std::string::npos);
  config = small_net(49);
  config.blocks = {};
  CHECK(message(config).find("model.depth = 49") != std::string::npos);
}

TEST_CASE("a label is right if no class is likelier, and never in a row of NaN") {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const Values values = {{"logits", {1, 2, 2, /**/ 3, 1, 2, /**/ kNan, kNan, kNan, /**/ 1, 2, 0}},
                         {"labels", {2, 2, 0, 1}}};
  for (const auto& [mesh, rules] : {std::pair{"", ""}, std::pair{"m:3", "classes:m"}}) {
    VariableSet variables;
    Graph graph("s", variables);
    const Tensor logits = graph.input("logits", {Shape{{"batch", 4}, {"classes", 3}}, DType::f32});
    const Tensor labels = graph.input("labels", {Shape{{"batch", 4}}, DType::i32});
    graph.fetch("right", nn::correct(logits, labels));
    graph.fetch("likeliest", nn::among_likeliest(logits, labels, 1));
    SimulatedRun run(variables, {&graph}, layout(mesh, rules));
    run.run("s", values);
    CHECK(run.fetch("s", "right") == std::vector<double>{1, 0, 0, 1});
    CHECK(run.fetch("s", "likeliest") == std::vector<double>{0, 0, 0, 1});  // a tie: the first
  }
}

TEST_CASE("a label is among the likeliest as plain loops find it, wherever classes lie") {
  constexpr std::int64_t kRows = 40, kMany = 9;
  std::mt19937 random(3);
  Values values;
  for (std::int64_t i = 0; i < kRows * kMany; ++i)
    values["logits"].push_back(static_cast<double>(random() % 6));  // many are equal
  for (std::int64_t i = 0; i < kRows; ++i)
    values["labels"].push_back(static_cast<double>(random() % kMany));
  for (const auto& [mesh, rules] : {std::pair{"", ""}, std::pair{"m:3", "classes:m"},
                                    std::pair{"b:2,m:2", "batch:b, classes:m"}})
    for (const std::int64_t count : {1, 4}) {
      VariableSet variables;
      Graph graph("s", variables);
      const Tensor logits =
          graph.input("logits", {Shape{{"batch", kRows}, {"classes", kMany}}, DType::f32});
      const Tensor labels = graph.input("labels", {Shape{{"batch", kRows}}, DType::i32});
      graph.fetch("found", nn::among_likeliest(logits, labels, count));
      SimulatedRun run(variables, {&graph}, layout(mesh, rules));
      run.run("s", values);
      const auto found = run.fetch("s", "found");
      for (std::int64_t row = 0; row < kRows; ++row) {
        const auto* line = values["logits"].data() + row * kMany;
        const auto label =
            static_cast<std::int64_t>(values["labels"][static_cast<std::size_t>(row)]);
        std::int64_t ahead = 0;
        for (std::int64_t c = 0; c < kMany; ++c)
          ahead += line[c] > line[label] || (line[c] == line[label] && c < label);
        CHECK(found[static_cast<std::size_t>(row)] == (ahead < count ? 1 : 0));
      }
    }
}
