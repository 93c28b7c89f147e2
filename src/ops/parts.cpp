// SPDX-License-Identifier: BSD-3-Clause
#include "parts.hpp"

#include "tessera/ops/strategies.hpp"

namespace tessera::ops {

program::BufferId new_parts(program::Emitter& emitter, const std::string& name, program::BufferId x,
                            int dim, const std::vector<Dim>& tail, DType dtype) {
  const auto placement = emitter.buffer(x).placement;
  const Shape shape = emitter.buffer(x).spec.shape;
  std::vector<Dim> dims = shape.without(shape[dim].name).dims();
  dims.insert(dims.begin(), {"_parts", emitter.mesh().group_size(mesh_dims_of(placement, dim))});
  dims.insert(dims.end(), tail.begin(), tail.end());
  const Shape parts(std::move(dims));
  auto map = dim_map(shape, parts);
  map[static_cast<std::size_t>(dim)] = 0;
  return emitter.temporary(name, {parts, dtype}, mapped(placement, map));
}

program::BufferId gather_parts(program::Emitter& emitter, program::BufferId x, int dim,
                               program::BufferId parts) {
  const auto cuts = mesh_dims_of(emitter.buffer(x).placement, dim);
  for (auto m = cuts.rbegin(); m != cuts.rend(); ++m)
    parts = emitter.relayout(parts, *m, State::replicated());
  return parts;
}

}  // namespace tessera::ops
