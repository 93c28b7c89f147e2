// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/compiled.hpp"

#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"
#include "tessera/plan/planner.hpp"

namespace tessera::train {

std::vector<plan::SectionRuns> Compiled::step() const {
  std::vector<plan::SectionRuns> runs;
  for (const auto& count : task->step_sections()) runs.push_back({count.section, count.runs});
  return runs;
}

plan::Report Compiled::report() const {
  return plan::report(program, step());
}

static void check_memory_limit(const Compiled& compiled, const std::string& limit) {
  if (limit.empty()) return;
  const auto bytes = static_cast<double>(compiled.program.arena_bytes);
  check_user(bytes <= parse_bytes("plan.memory_limit", limit), "plan.memory_limit = ", limit,
             " is exceeded: a rank of mesh '", compiled.mesh.to_string(), "' needs ",
             format_bytes(bytes),
             "; take more ranks, a layout that splits more dims, more train.micro_batches, "
             "optim.shard or layout.store");
}

plan::Candidate chosen(const Settings& settings, std::int64_t ranks) {
  plan::Candidate choice;
  choice.layout = Layout::parse(settings.mesh.rules);
  choice.mesh = resolve_mesh(settings.mesh.shape, choice.layout, ranks);
  choice.shard = settings.optim.shard;
  choice.micro_batches = settings.train.micro_batches;
  return choice;
}

std::unique_ptr<replicate::Task> make_task(const Settings& settings,
                                           const plan::Candidate& choice) {
  auto config = settings.task_config();
  config.micro_batches = choice.micro_batches;
  return std::make_unique<replicate::Task>(*settings.model, settings.optim, config);
}

Compiled compile(const Settings& settings, const plan::Candidate& choice) {
  Compiled compiled;
  compiled.layout = choice.layout;
  compiled.mesh = choice.mesh;
  compiled.task = make_task(settings, choice);
  const auto graphs = compiled.task->graphs();
  const auto& variables = compiled.task->variables();
  compiled.layout.check_names(compiled.mesh, plan::tensor_dims(variables, graphs));
  plan::PlanOptions options;
  options.mesh = compiled.mesh;
  options.layout = compiled.layout;
  options.shard = choice.shard;
  options.store = settings.mesh.store;
  compiled.program = plan::compile(variables, graphs, options);
  return compiled;
}

Compiled compile(const Settings& settings, std::int64_t ranks) {
  Compiled compiled = compile(settings, chosen(settings, ranks));
  check_memory_limit(compiled, settings.plan.memory_limit);
  return compiled;
}

}  // namespace tessera::train
