// SPDX-License-Identifier: BSD-3-Clause
#include "storage.hpp"

#include <algorithm>
#include <tuple>

#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"
#include "tessera/shape/tile.hpp"

namespace tessera::plan {

namespace {

/// Index of the mesh dim that a deck key names; -1 if it names none.
int named_mesh_dim(const MeshShape& mesh, const char* key, const std::string& name) {
  if (name.empty()) return -1;
  const auto found = mesh.find(name);
  std::vector<std::string> names;
  for (const auto& dim : mesh.dims()) names.push_back(dim.name);
  check_user(found.has_value(), key, " = ", name, " is no dim of the mesh ", mesh.to_string(),
             did_you_mean(name, names), "; name one of: ", join(names, ", "));
  return *found;
}

/// One more cut, of the dim whose tiles are the longest.
void cut_once_more(Placement& placement, const Shape& shape, const MeshShape& mesh, int m) {
  if (m < 0 || mesh[m].size == 1 || !placement[m].is_replicated() || shape.rank() == 0) return;
  const auto extents = largest_tile(shape, placement, mesh);
  const auto largest = std::max_element(extents.begin(), extents.end()) - extents.begin();
  placement[m] = State::split(static_cast<int>(largest), true);
}

}  // namespace

namespace {

/// The mesh dim `stage`, if logical devices are to be put over it. UserError if it is not for them
/// or too large.
int find_stage_dim(const VariableSet& variables, const PlanOptions& options) {
  const auto found = options.mesh.find(kStageDim);
  if (!found || options.mesh[*found].size == 1) return -1;
  const std::int64_t size = options.mesh[*found].size, devices = variables.logical_devices();
  const auto named = options.layout.mesh_dims();
  const bool is_ruled = std::find(named.begin(), named.end(), kStageDim) != named.end();
  if (is_ruled && devices == 1) return -1;
  check_user(!is_ruled, "layout.rules = ", options.layout.to_string(), " maps to the mesh dim ",
             kStageDim, ", over which the model's ", devices,
             " logical devices are put; give the rule's mesh dim another name");
  check_user(devices > 1, "mesh.shape has ", kStageDim, ":", size,
             ", but the model puts nothing on a logical device and no rule maps to it: all stages "
             "would do the same; say which layers go where (a deck's model.stages, a program's "
             "logical_device), or take the dim out of the mesh");
  check_user(size <= devices, "mesh.shape has ", kStageDim, ":", size, ", but the model has ",
             devices,
             " logical devices, and a stage needs one at least; nearest legal: ", kStageDim, ":",
             devices, ", or more logical devices (a deck's model.stages)");
  check_user(!options.overlap, "comm.overlap with mesh.shape ", kStageDim, ":", size,
             ": stages send their messages where they stand; drop the one or the other");
  check_user(options.part == Part::all, "replicate.mode = async with mesh.shape ", kStageDim, ":",
             size,
             ": parameter servers know no stages; take replicate.mode = sync, or split the model "
             "inside a group by layout.rules");
  for (const auto& [key, value] :
       {std::pair("optim.shard", options.shard), std::pair("layout.store", options.store)})
    check_user(value != kStageDim, key, " = ", kStageDim,
               ": a weight lives on one stage and can't be cut over them; name another mesh dim");
  return *found;
}

}  // namespace

Storage::Storage(const VariableSet& variables, const PlanOptions& options)
    : variables_(variables),
      options_(options),
      stage_(find_stage_dim(variables, options)),
      shard_(named_mesh_dim(options.mesh, "optim.shard", options.shard)),
      store_(named_mesh_dim(options.mesh, "layout.store", options.store)),
      placements_(static_cast<std::size_t>(variables.size())),
      bytes_(placements_.size()) {
  for (int v = 0; v < variables.size(); ++v) {
    const Variable& variable = variables[v];
    auto& placement = placements_[static_cast<std::size_t>(v)];
    if (variable.kind == Variable::Kind::slot)
      placement = sharded(variable.name, variable.spec.shape);
    else if (variable.kind == Variable::Kind::weight)
      placement = stored(variable.name, variable.spec.shape);
    else if (variable.kind != Variable::Kind::gradient)
      placement = ruled(variable.name, variable.spec.shape);
    else if (options.part != Part::all)
      placement = home(v);
    if (placement) {
      placement = at_stage(*placement, stage_of(variable.device));
      note_bytes(v);
    }
  }
}

int Storage::stages() const {
  return stage_ < 0 ? 1 : static_cast<int>(options_.mesh[stage_].size);
}

int Storage::stage_of(int device) const {
  if (stage_ < 0 || device == kEverywhere) return -1;
  // The block that holds the device: the largest s with s * devices / stages <= device.
  return static_cast<int>(((device + 1) * options_.mesh[stage_].size - 1) /
                          variables_.logical_devices());
}

Placement Storage::at_stage(Placement placement, int stage) const {
  if (stage_ >= 0) placement[stage_] = stage < 0 ? State::replicated() : State::at(stage);
  return placement;
}

void Storage::drop_unused(const std::vector<const Graph*>& graphs) {
  std::vector<bool> used(placements_.size());
  for (const Graph* graph : graphs) {
    for (int t = 0; t < graph->tensor_count(); ++t)
      if (graph->info(t).variable >= 0)
        used[static_cast<std::size_t>(graph->info(t).variable)] = true;
    for (const auto& assignment : graph->assignments())
      used[static_cast<std::size_t>(assignment.variable)] = true;
  }
  for (std::size_t v = 0; v < used.size(); ++v)
    if (!used[v]) placements_[v].reset();
}

Placement Storage::ruled(const std::string& name, const Shape& shape) const {
  Placement placement = options_.layout.placement(name, shape, options_.mesh);
  for (int m = 0; m < placement.mesh_rank(); ++m)
    if (options_.mesh[m].size == 1) placement[m] = State::replicated();
  return placement;
}

Placement Storage::stored(const std::string& name, const Shape& shape) const {
  Placement placement = ruled(name, shape);
  if (shape.rank() >= 2) cut_once_more(placement, shape, options_.mesh, store_);
  return placement;
}

Placement Storage::sharded(const std::string& name, const Shape& shape) const {
  Placement placement = stored(name, shape);
  cut_once_more(placement, shape, options_.mesh, shard_);
  return placement;
}

Placement Storage::home(int variable) const {
  const Variable& of = variables_[variable];
  return at_stage(sharded(of.name, of.spec.shape), stage_of(of.device));
}

void Storage::set_gradient_placement(int variable, Placement placement) {
  placements_[static_cast<std::size_t>(variable)] = std::move(placement);
  note_bytes(variable);
}

void Storage::note_bytes(int variable) {
  const TensorSpec& spec = variables_[variable].spec;
  auto& bytes = bytes_[static_cast<std::size_t>(variable)];
  bytes = std::max(bytes, largest_tile_size(spec.shape, *placement(variable), options_.mesh) *
                              static_cast<std::int64_t>(bytes_of(spec.dtype)));
}

bool Storage::put_together(const std::vector<int>& gradients) {
  for (int v : gradients)
    if (std::find(together_.begin(), together_.end(), v) != together_.end()) return false;
  together_.insert(together_.end(), gradients.begin(), gradients.end());
  return true;
}

std::vector<int> gradient_order(const VariableSet& variables, const Storage& storage) {
  std::vector<int> order;
  for (int v = 0; v < variables.size(); ++v)
    if (variables[v].kind == Variable::Kind::gradient && storage.placement(v)) order.push_back(v);
  // Those that are reduced whole follow each other, so that they go in one bucket.
  const auto key = [&](int v) {
    const auto dims = storage.placement(v)->partial_mesh_dims();
    const Placement home = storage.home(v);
    const bool scattered =
        std::any_of(dims.begin(), dims.end(), [&](int m) { return home[m].is_split(); });
    return std::tuple(program::stage_of(*storage.placement(v)), dims, scattered);
  };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return key(a) < key(b); });
  const auto& together = storage.together();
  std::erase_if(order, [&](int v) {
    return std::find(together.begin(), together.end(), v) != together.end();
  });
  order.insert(order.begin(), together.begin(), together.end());
  return order;
}

void Storage::lay_out(program::Program& program) const {
  program.variables.clear();
  for (int v = 0; v < variables_.size(); ++v) {
    program::StoredVariable stored;
    stored.variable = variables_[v];
    // A gradient that nothing assigns (a frozen weight's) needs no memory, nor what was dropped.
    stored.placement = placement(v).value_or(Placement(options_.mesh.rank()));
    if (placement(v)) stored.bytes = bytes(v);
    program.variables.push_back(std::move(stored));
  }
  // Stages lie over each other in memory: they are on other ranks.
  std::vector<std::int64_t> offset(static_cast<std::size_t>(stages()));
  const auto put = [&](int v, bool aligned) {
    auto& stored = program.variables[static_cast<std::size_t>(v)];
    const int stage = program::stage_of(stored.placement);
    const std::int64_t from = stage < 0 ? *std::max_element(offset.begin(), offset.end())
                                        : offset[static_cast<std::size_t>(stage)];
    stored.offset = from;
    const std::int64_t end = aligned ? align(from + stored.bytes) : from + stored.bytes;
    if (stage < 0)
      std::fill(offset.begin(), offset.end(), end);
    else
      offset[static_cast<std::size_t>(stage)] = end;
  };
  const auto gradients = gradient_order(variables_, *this);
  for (const bool everywhere : {true, false}) {
    const auto belongs = [&](int v) {
      const auto& placement = program.variables[static_cast<std::size_t>(v)].placement;
      return (program::stage_of(placement) < 0) == everywhere;
    };
    for (int v = 0; v < variables_.size(); ++v)
      if (variables_[v].kind != Variable::Kind::gradient && belongs(v)) put(v, true);
    for (int v : gradients)
      if (belongs(v)) put(v, false);
    // Gradients of stages begin on a line of their own.
    for (auto& end : offset) end = align(end);
  }
  program.variable_bytes = *std::max_element(offset.begin(), offset.end());
}

}  // namespace tessera::plan
