// SPDX-License-Identifier: BSD-3-Clause
#include "emitter.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"
#include "tessera/program/exchange.hpp"
#include "tessera/shape/tile.hpp"

namespace tessera::plan {

using program::BufferId;

Shape local_shape(const Shape& shape, const Placement& placement, const MeshShape& mesh) {
  std::vector<Dim> dims = shape.dims();
  const auto extents = largest_tile(shape, placement, mesh);
  for (std::size_t d = 0; d < dims.size(); ++d) dims[d].size = extents[d];
  return Shape(std::move(dims));
}

Shape NodeEmitter::local_shape(BufferId id) const {
  std::vector<Dim> dims = buffer(id).spec.shape.dims();
  const auto extents = largest_tile(buffer(id), mesh());
  for (std::size_t d = 0; d < dims.size(); ++d) dims[d].size = extents[d];
  return Shape(std::move(dims));
}

BufferId NodeEmitter::temporary(const std::string& name, TensorSpec spec, Placement placement,
                                Windows windows) {
  return planner_.builder().new_buffer(label_ + "/" + name, std::move(spec),
                                       planner_.here(std::move(placement)), std::move(windows));
}

BufferId NodeEmitter::view(BufferId of, TensorSpec spec, Placement placement, Windows windows) {
  const std::int64_t bytes = buffer(of).bytes;
  const BufferId id = planner_.builder().new_buffer(
      label_, std::move(spec), planner_.here(std::move(placement)), std::move(windows));
  TESSERA_CHECK(buffer(id).bytes == bytes, label_, ": a view of another size");
  planner_.builder().section().buffers.back().alias_of = of;
  return id;
}

void NodeEmitter::kernel(const std::string& id, Attributes attributes, std::vector<BufferId> inputs,
                         std::vector<BufferId> outputs, KernelOptions options) {
  program::KernelStep step;
  step.kernel = id;
  step.label = label_;
  step.attributes = std::move(attributes);
  step.inputs = std::move(inputs);
  step.outputs = std::move(outputs);
  step.workspace_bytes = options.workspace_bytes;
  step.flops = options.flops;
  step.in_place = std::move(options.in_place);
  planner_.builder().kernel(std::move(step));
}

void NodeEmitter::alias(int output, int input) {
  BufferId from = this->input(input);
  const BufferId to = this->output(output);
  auto& builder = planner_.builder();
  TESSERA_CHECK(buffer(from).bytes == buffer(to).bytes, label_, ": an alias of another size");
  // A partial value may be reduced in place later under one of its names only: it gets a copy.
  if (buffer(from).placement.has_partial()) {
    const BufferId copy = builder.new_buffer(label_, buffer(from).spec, buffer(from).placement);
    builder.copy(label_, from, copy);
    from = copy;
  }
  builder.section().buffers[static_cast<std::size_t>(to)].alias_of = from;
}

void NodeEmitter::all_reduce(program::ReduceOp op, const std::vector<int>& mesh_dims,
                             std::vector<BufferId> buffers) {
  planner_.builder().all_reduce(label_, op, mesh_dims, std::move(buffers));
}

BufferId NodeEmitter::relayout(BufferId from, int mesh_dim, State to) {
  Placement placement = buffer(from).placement;
  placement[mesh_dim] = to;
  return planner_.relayout(from, placement);
}

BufferId NodeEmitter::temporary_like(BufferId like, Windows windows) {
  const program::Buffer original = buffer(like);
  return planner_.builder().new_buffer(original.name + ":window", original.spec, original.placement,
                                       std::move(windows));
}

namespace {

/// The windows of a buffer that exchange() gives, dim by dim: those that move something.
Windows moving(const program::Buffer& from, const Windows& windows) {
  Windows result(static_cast<std::size_t>(from.spec.shape.rank()));
  TESSERA_CHECK(windows.size() == result.size() && from.windows.empty(), from.name,
                ": one window for each dim of a plain buffer");
  for (std::size_t d = 0; d < result.size(); ++d)
    if (windows[d].outside != Window::Outside::clip ||
        !from.placement.mesh_dims_splitting(static_cast<int>(d)).empty())
      result[d] = windows[d];
  return result;
}

}  // namespace

BufferId NodeEmitter::exchange(BufferId from, const Windows& windows, double fill) {
  const Windows wanted = moving(buffer(from), windows);
  Windows held(wanted.size());
  for (std::size_t d = 0; d < wanted.size(); ++d) {
    if (wanted[d].is_plain()) continue;
    held[d] = wanted[d];
    program::ExchangeStep step;
    step.dim = static_cast<int>(d);
    step.runs = program::runs_of(wanted[d], buffer(from).spec.shape[step.dim].size);
    step.inputs = {from};
    from = temporary_like(from, held);
    step.outputs = {from};
    step.fill = fill;
    exchange(std::move(step));
  }
  return from;
}

BufferId NodeEmitter::windowed(BufferId like, const Windows& windows) {
  const Windows wanted = moving(buffer(like), windows);
  const bool plain =
      std::all_of(wanted.begin(), wanted.end(), [](const Window& w) { return w.is_plain(); });
  return plain ? like : temporary_like(like, wanted);
}

void NodeEmitter::accumulate(BufferId from, BufferId into) {
  if (from == into) return;
  Windows held = buffer(from).windows;
  for (std::size_t d = held.size(); d-- > 0;) {
    if (held[d].is_plain()) continue;
    program::ExchangeStep step;
    step.mode = program::ExchangeStep::Mode::accumulate;
    step.dim = static_cast<int>(d);
    step.runs =
        program::reversed(program::runs_of(held[d], buffer(from).spec.shape[step.dim].size));
    step.inputs = {from};
    held[d] = Window::plain();
    const bool last =
        std::all_of(held.begin(), held.end(), [](const Window& w) { return w.is_plain(); });
    from = last ? into : temporary_like(into, held);
    step.outputs = {from};
    exchange(std::move(step));
  }
  TESSERA_CHECK(from == into, label_, ": accumulate needs a windowed buffer");
}

void NodeEmitter::exchange(program::ExchangeStep step) {
  step.label = label_;
  planner_.builder().exchange(std::move(step));
}

BufferId NodeEmitter::passing(BufferId of, int mesh_dim, std::int64_t places) {
  const program::Buffer original = buffer(of);
  const BufferId id =
      planner_.builder().new_buffer(original.name, original.spec, original.placement);
  auto& made = planner_.builder().section().buffers.back();
  made.alias_of = of;
  made.ring = {mesh_dim, places};
  return id;
}

void NodeEmitter::ring(int mesh_dim, std::vector<BufferId> inputs, std::vector<BufferId> outputs) {
  planner_.builder().ring(label_, mesh_dim, std::move(inputs), std::move(outputs));
}

void NodeEmitter::repeat(std::int64_t count, const std::function<void()>& body) {
  if (count == 0) return;
  auto& section = planner_.builder().section();
  program::Repeat repeat;
  repeat.first = static_cast<int>(section.steps.size());
  body();
  repeat.end = static_cast<int>(section.steps.size());
  repeat.count = count;
  TESSERA_CHECK(section.repeats.empty() || section.repeats.back().end <= repeat.first, label_,
                ": a repeat inside another");
  section.repeats.push_back(repeat);
}

void NodeEmitter::copy(BufferId from, BufferId to) {
  planner_.builder().copy(label_, from, to);
}

}  // namespace tessera::plan
