// SPDX-License-Identifier: BSD-3-Clause
#include "emitter.hpp"

#include "tessera/base/error.hpp"
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
  return plan::local_shape(buffer(id).spec.shape, buffer(id).placement, mesh());
}

BufferId NodeEmitter::temporary(const std::string& name, TensorSpec spec, Placement placement) {
  return planner_.builder().new_buffer(label_ + "/" + name, std::move(spec), std::move(placement));
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

}  // namespace tessera::plan
