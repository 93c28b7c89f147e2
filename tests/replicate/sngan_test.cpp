// SPDX-License-Identifier: BSD-3-Clause
// Adversarial nets train alike however many ranks hold the batch, the picture and the channels:
// both nets' weights, running statistics and singular vectors included.
#include <cmath>
#include <random>

#include "support/apart.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/layouts.hpp"
#include "support/simulated_run.hpp"
#include "tessera/base/error.hpp"
#include "tessera/models/sngan.hpp"
#include "tessera/replicate/task.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

constexpr std::int64_t kBatch = 6, kSide = 8, kChannels = 2, kClasses = 3;

models::SnganConfig small_model(std::int64_t groups, double penalty = 0) {
  models::SnganConfig config;
  config.base = 2;
  config.channels = kChannels;
  config.classes = kClasses;
  config.latent = 5;
  config.generator = {"4", "3"};
  config.discriminator = {"3", "4"};
  config.flat_blocks = 1;
  config.discriminator_steps = 2;
  config.norm_groups = groups;
  config.gradient_penalty = penalty;
  config.discriminator_optim.lr = 2e-3;
  config.generator_optim.lr = 1e-3;
  return config;
}

/// `filled` rows and what fills the batch up.
Values make_rows(unsigned seed, std::int64_t batch, std::int64_t filled) {
  Values values;
  for (std::int64_t i = 0; i < batch; ++i) {
    std::mt19937 random(1000 * seed + static_cast<unsigned>(i));
    std::uniform_real_distribution<double> uniform;
    for (std::int64_t k = 0; k < kSide * kSide * kChannels; ++k)
      values["image"].push_back(static_cast<float>(uniform(random)));
    values["label"].push_back(static_cast<double>(random() % kClasses));
    values["weights"].push_back(i < filled ? 1 : 0);
  }
  return values;
}

/// Steps of a task on a simulated mesh.
class Training {
 public:
  Training(std::int64_t groups, const plan::PlanOptions& options, double penalty = 0,
           std::int64_t batch = kBatch, std::int64_t filled = kBatch - 1)
      : model_(small_model(groups, penalty)), batch_(batch), filled_(filled) {
    replicate::TaskConfig config;
    config.batch = batch;
    config.padded = filled < batch;
    config.dtype = DType::f64;
    config.seed = 3;
    config.draw = {.rows = 6, .total = 12, .seed = 5};
    optim::OptimConfig optim;
    task_ = std::make_unique<replicate::Task>(model_, optim, config);
    run_ = std::make_unique<SimulatedRun>(task_->variables(), task_->graphs(), options);
    run_->executor().initialize(7);
  }

  /// The losses of both nets in one step.
  std::vector<double> step(std::int64_t step) {
    std::vector<double> losses;
    for (const auto& [phase, optim] : task_->phases())
      for (std::int64_t run = 0; run < phase.runs; ++run) {
        kernels::Feeds feeds;
        feeds.step = (step - 1) * phase.runs + run + 1;
        feeds.values = {{"inverse_weight", 1.0 / static_cast<double>(filled_)},
                        {"lr", optim.lr},
                        {"step", static_cast<double>(feeds.step)}};
        if (phase.fresh_batch) rows_ = rows(static_cast<unsigned>(feeds.step));
        run_->run(phase.section("micro"), rows_, feeds);
        losses.push_back(run_->fetch(phase.section("micro"), "loss")[0]);
        run_->run(phase.section("update"), {}, feeds);
      }
    return losses;
  }

  /// Losses, then what all variables hold that a checkpoint saves, and drawn pictures.
  std::vector<double> train(int steps) {
    std::vector<double> all;
    const auto add = [&](const std::vector<double>& values) {
      all.insert(all.end(), values.begin(), values.end());
    };
    for (int i = 1; i <= steps; ++i) add(step(i));
    for (const auto& variable : task_->variables())
      if (variable.is_saved()) add(run_->variable(variable.name));
    run_->run("eval", rows(99));
    add(run_->fetch("eval", "loss"));
    run_->run("draw", {}, {0, 1, {{"first", 6.0}}});
    add(run_->fetch("draw", "image"));
    add(run_->fetch("draw", "label"));
    return all;
  }
  Values rows(unsigned seed) const { return make_rows(seed, batch_, filled_); }
  SimulatedRun& run() { return *run_; }
  const replicate::Task& task() const { return *task_; }

 private:
  models::Sngan model_;
  std::int64_t batch_, filled_;
  std::unique_ptr<replicate::Task> task_;
  std::unique_ptr<SimulatedRun> run_;
  Values rows_;
};

void check_alike(std::int64_t groups,
                 const std::vector<std::pair<const char*, const char*>>& on_all, int steps,
                 double penalty = 0) {
  const auto expected = Training(groups, {}, penalty).train(steps);
  for (const auto& [mesh, rules] : on_all) {
    INFO(mesh << " under " << rules << ", " << groups << " groups");
    const auto found = Training(groups, layout(mesh, rules), penalty).train(steps);
    CHECK(apart(found, expected) < 1e-9);
  }
}

}  // namespace

TEST_CASE("one replica of a batch equals several with statistics over all of them") {
  check_alike(1,
              {{"data:2", "batch:data"},
               {"data:3", "batch:data"},
               {"data:4", "batch:data"},
               {"rows:2,cols:2", "height:rows, width:cols"},
               {"model:2", "hidden:model"},
               {"model:3", "features_1:model"},
               {"data:2,model:2", "batch:data, hidden:model"},
               {"data:2,rows:2", "batch:data, height:rows"}},
              20);
}

TEST_CASE("statistics of groups of rows do not depend on where these lie") {
  check_alike(3, {{"data:2", "batch:data"}, {"data:3", "batch:data"}, {"rows:2", "height:rows"}},
              4);
  check_alike(2, {{"data:2", "batch:data"}, {"data:4", "batch:data"}}, 20);
  const auto whole = Training(1, {}).train(1), in_parts = Training(3, {}).train(1);
  CHECK(std::abs(whole[0] - in_parts[0]) > 1e-6);
}

TEST_CASE("slopes of the score are kept near 1 on every mesh") {
  check_alike(1,
              {{"data:3", "batch:data"},
               {"rows:2,cols:2", "height:rows, width:cols"},
               {"data:2,model:2", "batch:data, hidden:model"}},
              3, 10);
  const auto plain = Training(1, {}).train(1), kept = Training(1, {}, 10).train(1);
  CHECK(kept[0] - plain[0] > 1e-3);
}

TEST_CASE("rows that fill up a batch change nothing") {
  const auto expected = Training(1, {}, 0, 5, 5).train(20);
  for (const auto& [mesh, rules] : {std::pair{"", ""}, std::pair{"data:4", "batch:data"}}) {
    INFO(mesh << " under " << rules);
    CHECK(apart(Training(1, layout(mesh, rules), 0, 7, 5).train(20), expected) < 1e-9);
  }
}

TEST_CASE("each update leaves the other net alone and moves the singular vectors once") {
  Training training(1, {});
  SimulatedRun& run = training.run();
  const auto variables = [&] {
    std::map<std::string, std::vector<double>> all;
    for (const auto& variable : training.task().variables())
      if (variable.is_saved()) all[variable.name] = run.variable(variable.name);
    return all;
  };
  const auto first = variables();
  kernels::Feeds feeds{1, 0, {{"inverse_weight", 0.2}, {"lr", 1e-3}, {"step", 1}}};
  run.run("discriminator/micro", training.rows(1), feeds);
  run.run("discriminator/update", {}, feeds);
  const auto second = variables();
  run.run("generator/micro", training.rows(1), feeds);
  run.run("generator/update", {}, feeds);
  const auto third = variables();
  for (const auto& [name, values] : first) {
    INFO(name);
    if (name.starts_with("optimizer/")) continue;
    const bool of_generator = name.starts_with("generator/");
    CHECK((second.at(name) == values) == of_generator);
    CHECK((third.at(name) == second.at(name)) != of_generator);
  }
}

TEST_CASE("adversarial nets name what does not fit") {
  const auto message = [](const models::SnganConfig& config) {
    return message_of([&] { models::Sngan(config).validate(); });
  };
  models::SnganConfig config = small_model(1);
  CHECK(message(config).empty());
  config.discriminator = {"3", "4", "5", "6"};
  CHECK(message(config).find("model.discriminator lists 4 blocks") != std::string::npos);
  config.discriminator = {"3", "x"};
  CHECK(message(config).find("'x' is no number of channels") != std::string::npos);
  config.discriminator.clear();
  CHECK(message(config).find("model.discriminator is empty") != std::string::npos);
}
