// SPDX-License-Identifier: BSD-3-Clause
#include "relayout_copies.hpp"

#include "tessera/base/error.hpp"

namespace tessera::runtime {

using program::CollectiveKind;

BoxCopy copy_region(const Box& region, const char* from, const Box& from_box, char* to,
                    const Box& to_box, std::size_t element_bytes) {
  BoxCopy copy;
  copy.rank = static_cast<int>(region.size());
  copy.element_bytes = element_bytes;
  std::int64_t from_stride = 1, to_stride = 1, from_offset = 0, to_offset = 0;
  for (std::size_t d = region.size(); d-- > 0;) {
    copy.extents[d] = region[d].size();
    copy.from_strides[d] = from_stride;
    copy.to_strides[d] = to_stride;
    from_offset += (region[d].begin - from_box[d].begin) * from_stride;
    to_offset += (region[d].begin - to_box[d].begin) * to_stride;
    from_stride *= from_box[d].size();
    to_stride *= to_box[d].size();
  }
  copy.from = from + from_offset * static_cast<std::int64_t>(element_bytes);
  copy.to = to + to_offset * static_cast<std::int64_t>(element_bytes);
  return copy;
}

Box intersect(const Box& a, const Box& b) {
  Box both;
  for (std::size_t d = 0; d < a.size(); ++d) both.push_back(tessera::intersect(a[d], b[d]));
  return both;
}

Exchange exchange_of(const program::RelayoutStep& step, const program::Section& section,
                     const MeshShape& mesh, const Coordinates& at) {
  Exchange exchange;
  const auto members = mesh[step.mesh_dim].size;
  for (std::int64_t j = 0; j < members; ++j) {
    Coordinates there = at;
    there[static_cast<std::size_t>(step.mesh_dim)] = static_cast<int>(j);
    auto& send = exchange.send.emplace_back();
    auto& receive = exchange.receive.emplace_back();
    std::int64_t sent = 0, received = 0;
    for (std::size_t t = 0; t < step.inputs.size(); ++t) {
      const auto& from = section.buffers[static_cast<std::size_t>(step.inputs[t])];
      const auto& to = section.buffers[static_cast<std::size_t>(step.outputs[t])];
      const Box my_source = tile_box(from.spec.shape, from.placement, mesh, at);
      const Box my_target = tile_box(to.spec.shape, to.placement, mesh, at);
      const Box their_source = tile_box(from.spec.shape, from.placement, mesh, there);
      const Box their_target = tile_box(to.spec.shape, to.placement, mesh, there);
      send.push_back(step.kind == CollectiveKind::all_gather ? my_source
                                                             : intersect(my_source, their_target));
      receive.push_back(step.kind == CollectiveKind::reduce_scatter
                            ? my_target
                            : intersect(their_source, my_target));
      sent += volume(send.back());
      received += volume(receive.back());
    }
    exchange.send_counts.push_back(sent);
    exchange.receive_counts.push_back(received);
  }
  return exchange;
}

}  // namespace tessera::runtime
