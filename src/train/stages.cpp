// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/stages.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"

namespace tessera::train {
namespace {

void add_once(std::vector<std::string>& names, const std::string& name) {
  if (std::ranges::find(names, name) == names.end()) names.push_back(name);
}

/// Adds what a section reads and assigns.
void add_traffic(const replicate::Task& task, const std::string& section, Traffic& traffic) {
  for (const Graph* graph : task.graphs()) {
    if (graph->section() != section) continue;
    const auto pull = [&](int v) {
      const Variable& variable = task.variables()[v];
      if (variable.is_saved()) add_once(traffic.pulled, variable.name);
    };
    for (int t = 0; t < graph->tensor_count(); ++t)
      if (graph->info(t).variable >= 0) pull(graph->info(t).variable);
    for (const auto& assignment : graph->assignments()) {
      const Variable& variable = task.variables()[assignment.variable];
      pull(assignment.variable);
      if (variable.kind == Variable::Kind::gradient) add_once(traffic.gradients, variable.name);
    }
  }
}

void check_can_be_added(const replicate::Task& task, const std::vector<std::string>& states) {
  for (const auto& name : states) {
    const DType dtype = task.variables()[task.variables().find(name)].spec.dtype;
    TESSERA_CHECK(dtype == DType::f32 || dtype == DType::f64, "state '", name,
                  "' is of a type whose changes cannot be added");
  }
}

}  // namespace

std::vector<std::string> moved_states(const replicate::Task& task, const replicate::Phase& phase) {
  std::vector<std::string> names;
  for (const Graph* graph : task.graphs()) {
    if (!graph->section().starts_with(phase.section("micro"))) continue;  // or _next, _last
    for (const auto& assignment : graph->assignments()) {
      const Variable& variable = task.variables()[assignment.variable];
      if (variable.kind == Variable::Kind::state) add_once(names, variable.name);
    }
  }
  return names;
}

Stages::Stages(const replicate::Task& task) {
  for (std::size_t p = 0; p < task.phases().size(); ++p) {
    const auto& phase = task.phases()[p].phase;
    for (std::int64_t run = 0; run < phase.runs; ++run) {
      if (phase.fresh_batch) ++batches;
      order.push_back({p, run, batches - 1});
    }
    Traffic& of_phase = traffic.emplace_back();
    add_traffic(task, phase.section("micro"), of_phase);
    add_traffic(task, phase.section("micro_next"), of_phase);
    if (phase.fresh_batch) add_traffic(task, "act", of_phase);  // its batch is lived through first
    of_phase.states = moved_states(task, phase);
    check_can_be_added(task, of_phase.states);
  }
  Traffic& of_evaluations = traffic.emplace_back();
  for (const char* section : {"eval", "act"}) add_traffic(task, section, of_evaluations);
}

std::int64_t Stages::batch_of(std::int64_t sequence) const {
  return sequence / pushes() * batches + order[static_cast<std::size_t>(sequence % pushes())].batch;
}

std::int64_t Stages::batches_after(std::int64_t count) const {
  return count == 0 ? 0 : batch_of(count - 1) + 1;
}

std::int64_t Stages::runs_in(std::int64_t count, std::size_t phase) const {
  std::int64_t in_step = 0, in_rest = 0;
  for (std::int64_t i = 0; i < pushes(); ++i) {
    if (order[static_cast<std::size_t>(i)].phase != phase) continue;
    ++in_step;
    in_rest += i < count % pushes();
  }
  return count / pushes() * in_step + in_rest;
}

}  // namespace tessera::train
