// SPDX-License-Identifier: BSD-3-Clause
#include "section_planner.hpp"

#include <algorithm>
#include <limits>

#include "emitter.hpp"
#include "pointwise_program.hpp"
#include "strategy.hpp"
#include "tessera/base/error.hpp"

namespace tessera::plan {

using program::BufferId;

namespace {
/// A gathered weight is kept from one use to the next if no more operations lie between.
constexpr int kNodesBetweenUses = 8;
}  // namespace

SectionPlanner::SectionPlanner(Storage& storage, const Graph& graph, bool whole)
    : storage_(storage),
      graph_(graph),
      builder_(storage, graph.section()),
      needed_(graph.nodes().size()),
      used_(static_cast<std::size_t>(graph.tensor_count())),
      versions_(static_cast<std::size_t>(graph.tensor_count())),
      readers_(static_cast<std::size_t>(graph.tensor_count())),
      assigned_to_(static_cast<std::size_t>(graph.tensor_count()), -1),
      whole_(whole) {}

Draft SectionPlanner::run() {
  find_needed();
  find_stages();
  load_inputs();
  reduce_gradients();
  builder_.section().backward_begin = -1;
  for (std::size_t n = 0; n < graph_.nodes().size(); ++n) {
    if (n == graph_.backward_begin())
      builder_.section().backward_begin = static_cast<int>(builder_.section().steps.size());
    if (!needed_[n]) continue;
    node_ = static_cast<int>(n);
    plan_node(graph_.nodes()[n]);
  }
  if (builder_.section().backward_begin < 0)
    builder_.section().backward_begin = static_cast<int>(builder_.section().steps.size());
  finish_assignments();
  finish_fetches();
  return {std::move(builder_.section()), std::move(stores_)};
}

void SectionPlanner::find_needed() {
  for (const auto& assignment : graph_.assignments()) {
    used_[static_cast<std::size_t>(assignment.tensor)] = true;
    assigned_to_[static_cast<std::size_t>(assignment.tensor)] = assignment.variable;
  }
  for (const auto& fetch : graph_.fetches()) used_[static_cast<std::size_t>(fetch.tensor)] = true;
  for (std::size_t n = needed_.size(); n-- > 0;) {
    const Node& node = graph_.nodes()[n];
    for (int output : node.outputs)
      needed_[n] = needed_[n] || used_[static_cast<std::size_t>(output)];
    if (!needed_[n]) continue;
    for (int input : node.inputs) {
      used_[static_cast<std::size_t>(input)] = true;
      readers_[static_cast<std::size_t>(input)].push_back(static_cast<int>(n));
    }
  }
}

/// Nodes run on the stage of their logical device. Those on none, which read nothing that is on a
/// stage, run where the only stage is that reads them.
void SectionPlanner::find_stages() {
  stages_.assign(graph_.nodes().size(), -1);
  if (storage_.stage_dim() < 0) return;
  constexpr int kNobody = -2;
  std::vector<int> wanted(static_cast<std::size_t>(graph_.tensor_count()), kNobody);
  const auto want = [&](int tensor, int stage) {
    int& known = wanted[static_cast<std::size_t>(tensor)];
    known = known == kNobody || known == stage ? stage : -1;
  };
  const auto stage_of_tensor = [&](int tensor) {
    const int node = graph_.info(tensor).node;
    return node >= 0 ? stages_[static_cast<std::size_t>(node)]
                     : storage_.stage_of(graph_.device_of(tensor));
  };
  std::vector<bool> free(graph_.nodes().size());
  for (std::size_t n = 0; n < free.size(); ++n) {
    const Node& node = graph_.nodes()[n];
    stages_[n] = storage_.stage_of(node.device);
    free[n] =
        stages_[n] < 0 && std::all_of(node.inputs.begin(), node.inputs.end(), [&](int input) {
          const int from = graph_.info(input).node;
          return from >= 0 ? free[static_cast<std::size_t>(from)] : stage_of_tensor(input) < 0;
        });
  }
  for (const auto& assignment : graph_.assignments())
    want(assignment.tensor, storage_.stage_of(storage_.variable(assignment.variable).device));
  for (const auto& fetch : graph_.fetches()) want(fetch.tensor, -1);
  for (std::size_t n = free.size(); n-- > 0;) {
    const Node& node = graph_.nodes()[n];
    if (!needed_[n]) continue;
    if (free[n]) {
      int stage = kNobody;
      for (int output : node.outputs) {
        const int by = wanted[static_cast<std::size_t>(output)];
        if (by != kNobody) stage = stage == kNobody || stage == by ? by : -1;
      }
      stages_[n] = std::max(stage, -1);
    }
    for (int input : node.inputs) want(input, stages_[n]);
  }
}

Placement SectionPlanner::here(Placement placement) const {
  const int stage = stages_[static_cast<std::size_t>(node_)];
  return stage < 0 ? placement : storage_.at_stage(std::move(placement), stage);
}

void SectionPlanner::load_inputs() {
  for (int t = 0; t < graph_.tensor_count(); ++t) {
    const auto& info = graph_.info(t);
    if (info.is_input) {
      add_version(
          t, builder_.new_buffer(info.name, info.spec, storage_.ruled(info.name, info.spec.shape)));
      builder_.section().inputs.push_back(
          {info.name, versions_[static_cast<std::size_t>(t)][0].buffer});
    } else if (info.is_feed && used_[static_cast<std::size_t>(t)]) {
      add_version(t, builder_.new_buffer(info.name, info.spec, Placement(storage_.mesh().rank())));
      builder_.section().feeds.push_back(
          {info.name, versions_[static_cast<std::size_t>(t)][0].buffer});
    } else if (info.variable >= 0 && used_[static_cast<std::size_t>(t)]) {
      const auto& placement = storage_.placement(info.variable);
      TESSERA_CHECK(placement.has_value(), "section '", graph_.section(), "' reads gradient '",
                    info.name, "', which no earlier section assigns");
      add_version(t, builder_.variable_buffer(info.variable, *placement));
    }
  }
}

Placement SectionPlanner::wanted(int tensor, int stage) const {
  const int variable = assigned_to_[static_cast<std::size_t>(tensor)];
  const auto& info = graph_.info(tensor);
  if (variable >= 0 && storage_.placement(variable) && !storage_.placement(variable)->has_partial())
    return storage_.at_stage(*storage_.placement(variable), stage);
  return storage_.at_stage(storage_.ruled(info.name, info.spec.shape), stage);
}

void SectionPlanner::plan_node(const Node& node) {
  Choice choice;
  choice.operation = node.operation.get();
  choice.tensors = node.inputs;
  for (int input : node.inputs) {
    release_gathered(input);
    choice.input_specs.push_back(spec_of(input));
    std::vector<Placement> placements;
    for (const auto& version : versions_[static_cast<std::size_t>(input)])
      placements.push_back(here(version.placement));
    TESSERA_CHECK(!placements.empty(), node.name, ": input '", graph_.info(input).name,
                  "' has no value");
    choice.inputs.push_back(std::move(placements));
  }
  for (int output : node.outputs) {
    choice.output_specs.push_back(spec_of(output));
    choice.wanted.push_back(wanted(output, stages_[static_cast<std::size_t>(node_)]));
  }
  choice.resting_bytes = resting_bytes(node);
  const Chosen chosen = choose_strategy(choice, storage_.mesh(), storage_.options().layout);
  std::vector<BufferId> inputs, outputs;
  for (std::size_t i = 0; i < node.inputs.size(); ++i)
    inputs.push_back(version_in(node.inputs[i], chosen.inputs[i]));
  for (std::size_t j = 0; j < node.outputs.size(); ++j)
    outputs.push_back(builder_.new_buffer(graph_.info(node.outputs[j]).name, choice.output_specs[j],
                                          chosen.outputs[j]));
  NodeEmitter emitter(*this, node.name, inputs, outputs);
  node.operation->lower(emitter);
  for (std::size_t j = 0; j < node.outputs.size(); ++j) {
    add_version(node.outputs[j], outputs[j]);
    if (used_[static_cast<std::size_t>(node.outputs[j])]) settle(node.outputs[j]);
    if (assigned_to_[static_cast<std::size_t>(node.outputs[j])] >= 0) accumulate(node.outputs[j]);
  }
}

/// A weight that is stored split keeps its gathered copy for operations that follow soon; later
/// ones, as those of the backward pass, gather it again.
void SectionPlanner::release_gathered(int tensor) {
  auto& versions = versions_[static_cast<std::size_t>(tensor)];
  if (versions.size() < 2 || !storage_.is_stored_split(versions[0].placement)) return;
  std::erase_if(versions, [&](const Version& version) {
    return !storage_.is_stored_split(version.placement) &&
           node_ - version.used_at > kNodesBetweenUses;
  });
}

/// At operation borders a tensor has its rules' placement, or is partial, or is cut further for
/// storage: bring the other mesh dims to the rules' state now.
void SectionPlanner::settle(int tensor) {
  Placement placement = versions_[static_cast<std::size_t>(tensor)].back().placement;
  const Placement target = wanted(tensor, stages_[static_cast<std::size_t>(node_)]);
  bool differs = false;
  for (int m = 0; m < placement.mesh_rank(); ++m) {
    if (placement[m] == target[m] || placement[m].is_partial() || placement[m].inner) continue;
    placement[m] = target[m];
    differs = true;
  }
  if (differs) version_in(tensor, placement);
}

const SectionPlanner::Version& SectionPlanner::cheapest_version(int tensor,
                                                                const Placement& placement) const {
  const auto& versions = versions_[static_cast<std::size_t>(tensor)];
  const Version* best = nullptr;
  double best_bytes = std::numeric_limits<double>::infinity();
  for (const auto& version : versions) {
    bool possible = true;  // a partial sum cannot be made out of anything but a replicated scalar
    for (int m = 0; m < placement.mesh_rank(); ++m)
      if (placement[m].is_partial() && !(placement[m] == version.placement[m]))
        possible = possible && may_become_partial(spec_of(tensor).shape, version.placement[m]);
    if (!possible) continue;
    const double bytes =
        relayout_bytes(spec_of(tensor), version.placement, placement, storage_.mesh());
    if (bytes < best_bytes) {
      best = &version;
      best_bytes = bytes;
    }
  }
  TESSERA_CHECK(best != nullptr, "tensor '", graph_.info(tensor).name, "' cannot be brought to ",
                placement.to_string(spec_of(tensor).shape, storage_.mesh()));
  return *best;
}

/// What is on all stages is at each of them.
bool SectionPlanner::holds(const Placement& version, const Placement& wanted) const {
  const int m = storage_.stage_dim();
  if (m < 0 || !version[m].is_replicated() || !wanted[m].is_at())
    return same_tiles(version, wanted);
  Placement there = version;
  there[m] = wanted[m];
  return same_tiles(there, wanted);
}

BufferId SectionPlanner::version_in(int tensor, const Placement& placement) {
  for (auto& version : versions_[static_cast<std::size_t>(tensor)])
    if (holds(version.placement, placement)) {
      version.used_at = node_;
      return version.buffer;
    }
  BufferId buffer = relayout(cheapest_version(tensor, placement).buffer, placement);
  const DType dtype = spec_of(tensor).dtype;
  if (builder_.buffer(buffer).spec.dtype != dtype && !placement.has_partial()) {
    const BufferId cast = builder_.new_buffer(graph_.info(tensor).name, spec_of(tensor), placement);
    builder_.copy(graph_.info(tensor).name, buffer, cast);
    auto& versions = versions_[static_cast<std::size_t>(tensor)];
    std::erase_if(versions, [&](const Version& version) { return version.buffer == buffer; });
    buffer = cast;
  }
  add_version(tensor, buffer);
  return buffer;
}

BufferId SectionPlanner::relayout(BufferId from, const Placement& to) {
  for (const auto& change : relayout_path(builder_.buffer(from).placement, to)) {
    from = builder_.change(from, change);
    if (change.kind == Change::Kind::all_reduce) refresh(from);
  }
  return from;
}

void SectionPlanner::add_version(int tensor, BufferId buffer) {
  auto& versions = versions_[static_cast<std::size_t>(tensor)];
  for (const auto& version : versions)
    if (version.buffer == buffer) return;
  versions.push_back({buffer, builder_.buffer(buffer).placement, node_});
}

/// After an in-place reduction: whoever holds the buffer holds the reduced value now.
void SectionPlanner::refresh(BufferId buffer) {
  for (auto& versions : versions_)
    for (auto& version : versions)
      if (version.buffer == buffer) version.placement = builder_.buffer(buffer).placement;
}

void SectionPlanner::finish_fetches() {
  for (const auto& fetch : graph_.fetches()) {
    Placement placement(storage_.mesh().rank());
    if (spec_of(fetch.tensor).shape.rank() == 0) {
      // The host adds up partial sums, but a maximum is no sum.
      placement = versions_[static_cast<std::size_t>(fetch.tensor)].back().placement;
      for (int m = 0; m < placement.mesh_rank(); ++m)
        if (placement[m].kind == State::Kind::partial_max) placement[m] = State::replicated();
    }
    builder_.section().fetches.push_back({fetch.name, version_in(fetch.tensor, placement)});
  }
}

/// What is added to a variable as it stands is added at once, so that it need not be kept till the
/// section's end.
void SectionPlanner::accumulate(int tensor) {
  for (std::size_t a = 0; a < graph_.assignments().size(); ++a) {
    const auto& assignment = graph_.assignments()[a];
    const auto& placement = storage_.placement(assignment.variable);
    if (assignment.tensor != tensor || !assignment.accumulate || !placement) continue;
    const auto& versions = versions_[static_cast<std::size_t>(tensor)];
    if (std::any_of(versions.begin(), versions.end(), [&](const Version& version) {
          return same_tiles(version.placement, *placement);
        }))
      values_[a] = add_to_variable(assignment.variable, version_in(tensor, *placement));
  }
}

void SectionPlanner::finish_assignments() {
  const auto& assignments = graph_.assignments();
  for (std::size_t a = 0; whole_ && a < assignments.size(); ++a)
    if (assignments[a].accumulate && !values_.contains(a))
      values_[a] = add_to_variable(
          assignments[a].variable,
          version_in(assignments[a].tensor, *storage_.placement(assignments[a].variable)));
  reduce_assigned();
  for (const auto& assignment : assignments)
    if (whole_ && storage_.variable(assignment.variable).kind == Variable::Kind::gradient)
      storage_.set_gradient_placement(assignment.variable, storage_.home(assignment.variable));
  gather_assigned();
  for (std::size_t a = 0; a < assignments.size(); ++a) {
    const int variable = assignments[a].variable;
    BufferId value = -1;
    if (values_.contains(a)) {
      value = relayout(values_.at(a), *storage_.placement(variable));
    } else {
      value = assigned_value(assignments[a]);
      if (assignments[a].accumulate) value = add_to_variable(variable, value);
    }
    stores_.push_back({variable, value});
  }
}

/// The assigned tensor in its variable's placement. The first section that assigns a gradient
/// decides how it is stored: as it came out, partial sums included.
BufferId SectionPlanner::assigned_value(const Graph::Assignment& assignment) {
  if (!storage_.placement(assignment.variable)) {
    const auto& versions = versions_[static_cast<std::size_t>(assignment.tensor)];
    const Version* stored = &versions.back();
    for (const auto& version : versions)
      if (version.placement.has_partial()) stored = &version;
    Placement placement = stored->placement;
    // A weight that is on all stages has the sum of what they computed, reduced with the others.
    const int m = storage_.stage_dim();
    if (m >= 0 && placement[m].is_at() && storage_.home(assignment.variable)[m].is_replicated())
      placement[m] = State::partial_sum();
    const BufferId value =
        placement == stored->placement ? stored->buffer : version_in(assignment.tensor, placement);
    storage_.set_gradient_placement(assignment.variable, placement);
    return value;
  }
  return version_in(assignment.tensor, *storage_.placement(assignment.variable));
}

BufferId SectionPlanner::add_to_variable(int variable, BufferId value) {
  const Placement placement = *storage_.placement(variable);
  const TensorSpec spec = storage_.variable(variable).spec;
  const std::string& name = storage_.variable(variable).name;
  const BufferId old = builder_.variable_buffer(variable, placement);
  const BufferId sum = builder_.new_buffer(name, spec, placement);
  PointwiseProgram program = copy_program(old, sum, spec.shape.rank());
  program.code = ops::PointwiseCode(2);
  program.code.stores = {program.code.append(program::PointOp::add, 0, 1)};
  program.inputs.push_back(value);
  program.maps.push_back(program.maps[0]);
  program::KernelStep step;
  step.label = name;
  program.write_to(step);
  builder_.kernel(std::move(step));
  return sum;
}

}  // namespace tessera::plan
