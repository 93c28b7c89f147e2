// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <set>

#include "fuse.hpp"
#include "memory.hpp"
#include "merge_reductions.hpp"
#include "overlap.hpp"
#include "pipeline.hpp"
#include "replay.hpp"
#include "section_planner.hpp"
#include "storage.hpp"
#include "tessera/base/error.hpp"
#include "tessera/plan/planner.hpp"

namespace tessera::plan {
namespace {

/// True of sections that update weights.
bool reads_gradients(const Graph& graph) {
  for (int t = 0; t < graph.tensor_count(); ++t) {
    const int variable = graph.info(t).variable;
    if (variable >= 0 && graph.variables()[variable].kind == Variable::Kind::gradient) return true;
  }
  return false;
}

/// The section of a step's further micro-batches becomes a part of the first one's.
void join_to(program::Program& program, const program::Section& next, const Graph& graph,
             int stages) {
  for (auto& section : program.sections)
    if (section.name == graph.follows()) {
      const auto count = static_cast<int>(graph.times()) + 1;
      section = join_micro_batches(section, next, count, stages);
      return;
    }
  TESSERA_CHECK(false, "section '", next.name, "' follows '", graph.follows(),
                "', which is not before it");
}

/// Offsets from the start of the arena: variables first, the section's own part after them.
void place_in_arena(program::Program& program) {
  for (auto& section : program.sections) {
    for (auto& buffer : section.buffers)
      buffer.offset = buffer.variable >= 0
                          ? program.variables[static_cast<std::size_t>(buffer.variable)].offset
                          : program.variable_bytes + buffer.offset;
    for (auto& step : section.steps)
      if (auto* kernel = std::get_if<program::KernelStep>(&step))
        kernel->workspace_offset += program.variable_bytes;
    program.arena_bytes =
        std::max(program.arena_bytes, program.variable_bytes + section.arena_bytes);
  }
}

}  // namespace

std::vector<std::string> tensor_dims(const VariableSet& variables,
                                     const std::vector<const Graph*>& graphs) {
  std::set<std::string> names;
  for (const auto& variable : variables)
    for (const auto& dim : variable.spec.shape) names.insert(dim.name);
  for (const Graph* graph : graphs)
    for (int t = 0; t < graph->tensor_count(); ++t)
      for (const auto& dim : graph->info(t).spec.shape) names.insert(dim.name);
  return {names.begin(), names.end()};
}

program::Program compile(const VariableSet& variables, const std::vector<const Graph*>& graphs,
                         const PlanOptions& options) {
  options.layout.check_names(options.mesh, tensor_dims(variables, graphs));
  Storage storage(variables, options);
  if (options.part == Part::compute) storage.drop_unused(graphs);
  program::Program program;
  program.mesh = options.mesh;
  for (const Graph* graph : graphs) {
    const bool whole =
        options.overlap && std::find(options.reducing.begin(), options.reducing.end(),
                                     graph->section()) != options.reducing.end();
    Draft draft = SectionPlanner(storage, *graph, whole).run();
    fuse(draft);
    if (reads_gradients(*graph)) merge_reductions(draft);
    bind_stores(draft, storage);
    if (options.overlap) {
      reduce_in_place(draft.section, storage);
      make_flights(draft.section, options.mesh, options.least_flight_bytes);
    }
    if (!graph->follows().empty() && storage.stages() > 1)
      join_to(program, draft.section, *graph, storage.stages());
    else
      program.sections.push_back(std::move(draft.section));
  }
  for (auto& section : program.sections) {
    plan_memory(section, options.mesh, storage.stages());
    if (storage.stages() > 1) replay(section, stage_lists(section, options.mesh));
  }
  storage.lay_out(program);
  program.arena_bytes = program.variable_bytes;
  place_in_arena(program);
  return program;
}

}  // namespace tessera::plan
