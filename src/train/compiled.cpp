// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/compiled.hpp"

#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"
#include "tessera/plan/planner.hpp"

namespace tessera::train {

plan::Report Compiled::report() const {
  std::vector<plan::SectionRuns> runs;
  for (const auto& count : task->step_sections()) runs.push_back({count.section, count.runs});
  return plan::report(program, runs);
}

static void check_memory_limit(const Compiled& compiled, const std::string& limit) {
  if (limit.empty()) return;
  const auto bytes = static_cast<double>(compiled.program.arena_bytes);
  check_user(bytes <= parse_bytes("plan.memory_limit", limit), "plan.memory_limit = ", limit,
             " is exceeded: a rank of mesh '", compiled.mesh.to_string(), "' needs ",
             format_bytes(bytes),
             "; take more ranks, a layout that splits more dims, more train.micro_batches or "
             "optim.shard");
}

Compiled compile(const Settings& settings, std::int64_t ranks) {
  Compiled compiled;
  compiled.layout = Layout::parse(settings.mesh.rules);
  compiled.mesh = resolve_mesh(settings.mesh.shape, compiled.layout, ranks);
  compiled.task =
      std::make_unique<replicate::Task>(*settings.model, settings.optim, settings.task_config());
  const auto graphs = compiled.task->graphs();
  const auto& variables = compiled.task->variables();
  compiled.layout.check_names(compiled.mesh, plan::tensor_dims(variables, graphs));
  plan::PlanOptions options;
  options.mesh = compiled.mesh;
  options.layout = compiled.layout;
  options.shard = settings.optim.shard;
  compiled.program = plan::compile(variables, graphs, options);
  check_memory_limit(compiled, settings.plan.memory_limit);
  return compiled;
}

}  // namespace tessera::train
