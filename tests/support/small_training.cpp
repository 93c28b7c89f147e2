// SPDX-License-Identifier: BSD-3-Clause
#include "support/small_training.hpp"

#include <random>
#include <utility>

#include "tessera/base/error.hpp"
#include "tessera/optim/schedule.hpp"

namespace tessera::test {
namespace {

/// Rows of random tokens; some targets have weight 0.
Values random_rows(int step, std::int64_t batch, std::int64_t vocab) {
  std::mt19937 random(static_cast<unsigned>(step));
  Values rows;
  for (std::int64_t i = 0; i < batch * SmallTraining::kLength; ++i) {
    rows["tokens"].push_back(static_cast<double>(random() % static_cast<unsigned>(vocab)));
    rows["targets"].push_back(static_cast<double>(random() % static_cast<unsigned>(vocab)));
    rows["weights"].push_back(random() % 4 == 0 ? 0 : 1);
  }
  return rows;
}

/// The rows of one micro-batch.
Values part_of(const Values& rows, std::int64_t part, std::int64_t parts) {
  Values result;
  for (const auto& [name, values] : rows) {
    const auto size = static_cast<std::int64_t>(values.size()) / parts;
    result[name].assign(values.begin() + part * size, values.begin() + (part + 1) * size);
  }
  return result;
}

void set_inputs(runtime::Executor& executor, const std::string& section, const Values& rows,
                int micro) {
  const auto& plan = executor.program().section(section);
  for (const auto& input : plan.inputs) {
    if (input.micro != micro) continue;
    const auto& spec = plan.buffers[static_cast<std::size_t>(input.buffer)].spec;
    for (int rank = 0; rank < executor.local_ranks(); ++rank)
      executor.set_input(
          section, input.name, rank,
          cut_tile(rows.at(input.name), spec, executor.input_box(section, input.name, rank)).data(),
          micro);
  }
}

}  // namespace

models::TransformerConfig SmallTraining::config(std::int64_t vocab) {
  models::TransformerConfig config;
  config.layers = 2;
  config.d_model = 6;
  config.d_ff = 7;
  config.heads = 3;
  config.d_kv = 2;
  config.vocab = vocab;
  config.max_length = kLength;
  config.dropout = 0.2;
  return config;
}

static optim::OptimConfig plain_optim() {
  optim::OptimConfig optim;
  optim.lr = 0.01;
  optim.clip_norm = 0.5;
  return optim;
}

static replicate::TaskConfig task_of(DType dtype, std::vector<std::string> recompute,
                                     std::int64_t micro_batches, bool last_apart) {
  replicate::TaskConfig task;
  task.batch = SmallTraining::kBatch;
  task.dtype = dtype;
  task.recompute = std::move(recompute);
  task.micro_batches = micro_batches;
  task.last_apart = last_apart;
  return task;
}

SmallTraining::SmallTraining(DType dtype, const models::TransformerConfig& config,
                             std::vector<std::string> recompute, std::int64_t micro_batches,
                             bool last_apart)
    : SmallTraining(config, plain_optim(),
                    task_of(dtype, std::move(recompute), micro_batches, last_apart)) {}

SmallTraining::SmallTraining(const models::TransformerConfig& config,
                             const optim::OptimConfig& optim, replicate::TaskConfig task)
    : SmallTraining(std::make_unique<models::Transformer>(config), optim, std::move(task)) {}

SmallTraining::SmallTraining(std::unique_ptr<replicate::Model> model,
                             const optim::OptimConfig& optim, replicate::TaskConfig task)
    : model_(std::move(model)) {
  task.length = kLength;
  task.seed = 7;
  task_ = std::make_unique<replicate::Task>(*model_, optim, task);
}

program::Program SmallTraining::compile(const std::string& mesh, const std::string& rules,
                                        const std::string& shard, const std::string& store) const {
  return compile(options(mesh, rules, shard, store));
}

program::Program SmallTraining::compile(const plan::PlanOptions& options) const {
  return plan::compile(task_->variables(), task_->graphs(), options);
}

plan::PlanOptions SmallTraining::options(const std::string& mesh, const std::string& rules,
                                         const std::string& shard, const std::string& store) {
  plan::PlanOptions options;
  options.mesh = MeshShape::parse(mesh, 0);
  options.layout = Layout::parse(rules);
  options.shard = shard;
  options.store = store;
  return options;
}

std::vector<double> SmallTraining::run(runtime::Executor& executor, int steps) const {
  executor.initialize(7);
  std::vector<double> curve;
  for (int step = 1; step <= steps; ++step) {
    const Values rows = random_rows(step, task_->config().batch, model_->vocab());
    double weight = 0, loss = 0;
    for (double w : rows.at("weights")) weight += w;
    kernels::Feeds feeds;
    feeds.step = step;
    feeds.values = {{"inverse_weight", 1 / weight},
                    {"lr", optim::learning_rate(task_->optim(), step)},
                    {"step", static_cast<double>(step)}};
    const auto& config = task_->config();
    const int held = executor.program().section("micro").micro_batches;
    TESSERA_CHECK(held == 1 || held == config.micro_batches, "a section holds ", held, " of ",
                  config.micro_batches, " micro-batches");
    for (std::int64_t micro = 0; micro < config.micro_batches; micro += held) {
      const bool is_last = config.last_apart && micro + 1 == config.micro_batches;
      const char* section = micro == 0 ? "micro" : is_last ? "micro_last" : "micro_next";
      feeds.micro = micro;
      for (int i = 0; i < held; ++i)
        set_inputs(executor, section, part_of(rows, micro + i, config.micro_batches), i);
      executor.run(section, feeds);
      for (int i = 0; i < held; ++i)
        for (int rank = 0; rank < executor.local_ranks(); ++rank)
          loss += executor.fetch_share(section, "loss", rank, i);
    }
    feeds.micro = 0;
    executor.run("update", feeds);
    TESSERA_CHECK(executor.fetch("update", "finite", 0)[0] == 1, "step ", step, " is not finite");
    curve.push_back(loss);
    curve.push_back(executor.fetch("update", "grad_norm", 0)[0]);
  }
  return curve;
}

}  // namespace tessera::test
