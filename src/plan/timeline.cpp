// SPDX-License-Identifier: BSD-3-Clause
// What `tessera plan --json=full` adds: memory and time step by step, and the tiles of variables.
#include <algorithm>
#include <string>

#include "tessera/base/json.hpp"
#include "tessera/plan/cost_model.hpp"
#include "tessera/shape/tile.hpp"

namespace tessera::plan {
namespace {

using program::Section;

/// Bytes of the section's own part of the arena that are live during each step.
std::vector<std::int64_t> live_bytes(const Section& section) {
  std::vector<std::int64_t> change(section.steps.size() + 1);
  const auto steps = static_cast<int>(section.steps.size());
  std::vector<std::pair<std::int64_t, int>> counted;  // memory that two buffers share counts once
  for (const auto& buffer : section.buffers) {
    if (buffer.variable >= 0 || buffer.last_step < buffer.first_step) continue;
    const std::pair<std::int64_t, int> place{buffer.offset, buffer.first_step};
    if (std::find(counted.begin(), counted.end(), place) != counted.end()) continue;
    counted.push_back(place);
    const int first = std::clamp(buffer.first_step, 0, steps);
    change[static_cast<std::size_t>(first)] += buffer.bytes;
    if (buffer.last_step < steps)
      change[static_cast<std::size_t>(std::max(buffer.last_step + 1, first))] -= buffer.bytes;
  }
  for (std::size_t i = 1; i < change.size(); ++i) change[i] += change[i - 1];
  return change;
}

std::string kind_of(const program::Step& step) {
  if (const auto* kernel = std::get_if<program::KernelStep>(&step)) return kernel->kernel;
  if (std::holds_alternative<program::AllReduceStep>(step)) return "all_reduce";
  if (const auto* relayout = std::get_if<program::RelayoutStep>(&step))
    return program::name_of(relayout->kind);
  if (std::holds_alternative<program::FinishStep>(step)) return "finish";
  if (std::holds_alternative<program::TransferStep>(step)) return "transfer";
  return std::holds_alternative<program::ExchangeStep>(step) ? "exchange" : "local";
}

void write_steps(JsonWriter& json, const Section& section, const CostModel& model) {
  const auto live = live_bytes(section);
  json.key("steps").begin_array();
  for (std::size_t i = 0; i < section.steps.size(); ++i) {
    const auto& step = section.steps[i];
    const StepSeconds seconds = model.seconds_of(section, step);
    json.begin_object().key("label").value(program::label_of(step));
    json.key("kind").value(kind_of(step)).key("compute_s").value(seconds.compute);
    json.key("communication_s").value(seconds.communication);
    json.key("live_bytes").value(live[i]).end_object();
  }
  json.end_array();
}

void write_variable(JsonWriter& json, const program::StoredVariable& stored,
                    const MeshShape& mesh) {
  const Shape& shape = stored.variable.spec.shape;
  json.begin_object().key("name").value(stored.variable.name).key("dims").begin_array();
  const auto tile = largest_tile(shape, stored.placement, mesh);
  for (int d = 0; d < shape.rank(); ++d) {
    json.begin_object().key("name").value(shape[d].name).key("size").value(shape[d].size);
    json.key("tile").value(tile[static_cast<std::size_t>(d)]).key("mesh_dims").begin_array();
    for (int m : stored.placement.mesh_dims_splitting(d)) json.value(mesh[m].name);
    json.end_array().end_object();
  }
  json.end_array().key("bytes").value(stored.bytes).end_object();
}

}  // namespace

void write_timeline(JsonWriter& json, const program::Program& program,
                    const std::vector<SectionRuns>& step, const CostModel& model) {
  const MeshShape& mesh = program.mesh;
  json.key("mesh_dims").begin_array();
  for (const auto& dim : mesh.dims()) {
    json.begin_object().key("name").value(dim.name).key("size").value(dim.size).end_object();
  }
  json.end_array().key("variable_bytes").value(program.variable_bytes);
  json.key("timeline").begin_array();
  for (const auto& runs : step) {
    const Section& section = program.section(runs.section);
    json.begin_object().key("section").value(section.name).key("runs").value(runs.runs);
    write_steps(json, section, model);
    json.end_object();
  }
  json.end_array().key("variables").begin_array();
  for (const auto& stored : program.variables)
    if (stored.variable.kind == Variable::Kind::weight) write_variable(json, stored, mesh);
  json.end_array();
}

}  // namespace tessera::plan
