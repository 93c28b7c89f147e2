// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/shape/tile.hpp"

#include <algorithm>

namespace tessera {

Interval block(std::int64_t n, std::int64_t parts, std::int64_t i) {
  // i * n may pass 2^63 only for tensors that no machine holds (n < 2^47 with 2^16 parts).
  return {i * n / parts, (i + 1) * n / parts};
}

Interval block(const Interval& whole, std::int64_t parts, std::int64_t i) {
  const Interval part = block(whole.size(), parts, i);
  return {whole.begin + part.begin, whole.begin + part.end};
}

Interval intersect(const Interval& a, const Interval& b) {
  const Interval both{std::max(a.begin, b.begin), std::min(a.end, b.end)};
  return both.end > both.begin ? both : Interval{both.begin, both.begin};
}

Box whole_box(const Shape& shape) {
  Box box;
  for (const auto& dim : shape) box.push_back({0, dim.size});
  return box;
}

Box tile_box(const Shape& shape, const Placement& placement, const MeshShape& mesh,
             const Coordinates& at) {
  Box box = whole_box(shape);
  for (int d = 0; d < shape.rank(); ++d)
    for (int m : placement.mesh_dims_splitting(d)) {
      auto& interval = box[static_cast<std::size_t>(d)];
      interval = block(interval, mesh[m].size, at[static_cast<std::size_t>(m)]);
    }
  for (int m = 0; m < placement.mesh_rank(); ++m)
    if (placement[m].is_at() && placement[m].dim != at[static_cast<std::size_t>(m)])
      for (auto& interval : box) interval = {};
  return box;
}

std::int64_t volume(const Box& box) {
  std::int64_t volume = 1;
  for (const auto& interval : box) volume *= interval.size();
  return volume;
}

std::vector<std::int64_t> largest_tile(const Shape& shape, const Placement& placement,
                                       const MeshShape& mesh) {
  std::vector<std::int64_t> extents;
  for (int d = 0; d < shape.rank(); ++d) {
    std::int64_t extent = shape[d].size;
    for (int m : placement.mesh_dims_splitting(d))
      extent = (extent + mesh[m].size - 1) / mesh[m].size;
    extents.push_back(extent);
  }
  return extents;
}

std::int64_t largest_tile_size(const Shape& shape, const Placement& placement,
                               const MeshShape& mesh) {
  std::int64_t size = 1;
  for (auto extent : largest_tile(shape, placement, mesh)) size *= extent;
  return size;
}

}  // namespace tessera
