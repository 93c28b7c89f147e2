// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/compiled.hpp"

#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"
#include "tessera/plan/cost_model.hpp"
#include "tessera/plan/planner.hpp"
#include "tessera/plan/recompute.hpp"

namespace tessera::train {

std::vector<plan::SectionRuns> Compiled::step() const {
  std::vector<plan::SectionRuns> runs;
  for (const auto& count : task->step_sections()) runs.push_back({count.section, count.runs});
  return runs;
}

plan::Report Compiled::report() const {
  plan::Report report = plan::report(program, step());
  const Graph& micro = *task->graphs().front();
  for (int region = 0; region < static_cast<int>(micro.regions().size()); ++region)
    if (micro.is_recomputed(region))
      report.recomputed.push_back(micro.regions()[static_cast<std::size_t>(region)]);
  return report;
}

static void check_memory_limit(const Compiled& compiled, const std::string& limit) {
  if (limit.empty()) return;
  const auto bytes = static_cast<double>(compiled.program.arena_bytes);
  check_user(bytes <= parse_bytes("plan.memory_limit", limit), "plan.memory_limit = ", limit,
             " is exceeded: a rank of mesh '", compiled.mesh.to_string(), "' needs ",
             format_bytes(bytes),
             "; take more ranks, a layout that splits more dims, more train.micro_batches, "
             "train.recompute, optim.shard or layout.store");
}

plan::Candidate chosen(const Settings& settings, std::int64_t ranks) {
  plan::Candidate choice;
  choice.layout = Layout::parse(settings.mesh.rules);
  choice.mesh = resolve_mesh(settings.mesh.shape, choice.layout, ranks);
  if (settings.model->is_replicated())
    choice.layout = settings.replicate.layout_of(choice.layout, choice.mesh);
  choice.shard = settings.optim.shard;
  choice.store = settings.mesh.store;
  choice.micro_batches = settings.train.micro_batches;
  choice.recompute = settings.train.recompute;
  return choice;
}

std::int64_t replicas_of(const Settings& settings, const plan::Candidate& choice) {
  // A model without replicas refuses a number of them, but not that the deck leaves it open.
  return settings.model->is_replicated()
             ? settings.replicate.replicas_of(choice.layout, choice.mesh)
             : std::max<std::int64_t>(1, settings.replicate.replicas);
}

std::unique_ptr<replicate::Task> make_task(const Settings& settings, const plan::Candidate& choice,
                                           std::vector<std::string> recompute) {
  auto config = settings.task_config();
  config.micro_batches = choice.micro_batches;
  config.replicas = replicas_of(settings, choice);
  config.uneven = settings.replicate.uneven;
  config.recompute = std::move(recompute);
  return std::make_unique<replicate::Task>(*settings.model, settings.optim, config);
}

plan::Machine machine_of(const Settings& settings) {
  return settings.plan.machine.empty() ? plan::Machine()
                                       : plan::Machine::read(settings.plan.machine);
}

namespace {

Compiled compile_with(const Settings& settings, const plan::Candidate& choice,
                      std::vector<std::string> recompute) {
  Compiled compiled;
  compiled.layout = choice.layout;
  compiled.mesh = choice.mesh;
  compiled.task = make_task(settings, choice, std::move(recompute));
  const auto graphs = compiled.task->graphs();
  const auto& variables = compiled.task->variables();
  compiled.layout.check_names(compiled.mesh, plan::tensor_dims(variables, graphs));
  plan::PlanOptions options;
  options.mesh = compiled.mesh;
  options.layout = compiled.layout;
  options.shard = choice.shard;
  options.store = choice.store;
  compiled.program = plan::compile(variables, graphs, options);
  return compiled;
}

/// As few regions computed again as the limit of memory asks for.
Compiled compile_within(const Settings& settings, const plan::Candidate& choice) {
  check_user(!settings.plan.memory_limit.empty(),
             "train.recompute = auto needs plan.memory_limit: the memory that a rank may take");
  const double limit = parse_bytes("plan.memory_limit", settings.plan.memory_limit);
  Compiled compiled = compile_with(settings, choice, {});
  const auto machine = machine_of(settings);
  const plan::CostModel model(machine, choice.mesh, settings.plan.ranks_per_node);
  const Graph& micro = *compiled.task->graphs().front();
  const auto costs = plan::region_costs(micro, compiled.program.section(micro.section()), model);
  double ask = static_cast<double>(compiled.program.arena_bytes) - limit;
  std::size_t recomputed = 0;
  while (static_cast<double>(compiled.program.arena_bytes) > limit && recomputed < costs.size()) {
    auto regions = plan::choose_regions(costs, ask);
    recomputed = regions.size();
    compiled = compile_with(settings, choice, std::move(regions));
    ask += std::max(static_cast<double>(compiled.program.arena_bytes) - limit, 1.0);
  }
  return compiled;
}

}  // namespace

Compiled compile(const Settings& settings, const plan::Candidate& choice) {
  if (choice.recompute == "auto") return compile_within(settings, choice);
  return compile_with(
      settings, choice,
      choice.recompute == "all" ? std::vector<std::string>{"*"} : std::vector<std::string>{});
}

Compiled compile(const Settings& settings, std::int64_t ranks) {
  Compiled compiled = compile(settings, chosen(settings, ranks));
  check_memory_limit(compiled, settings.plan.memory_limit);
  return compiled;
}

}  // namespace tessera::train
