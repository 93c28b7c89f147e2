// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/shape/window.hpp"

#include <algorithm>

namespace tessera {
namespace {

const Window& window_of(const Windows& windows, int dim) {
  static const Window plain;
  return windows.empty() ? plain : windows[static_cast<std::size_t>(dim)];
}

/// The sizes whose blocks the placement cuts.
Shape cut_shape(const Shape& shape, const Windows& windows) {
  std::vector<Dim> dims = shape.dims();
  for (int d = 0; d < shape.rank(); ++d) {
    auto& size = dims[static_cast<std::size_t>(d)].size;
    size = window_of(windows, d).blocks_of(size);
  }
  return Shape(std::move(dims));
}

}  // namespace

Interval Window::of(const Interval& block, std::int64_t n) const {
  if (is_plain()) return block;
  Interval need{block.begin * stride + offset, block.begin * stride + offset};
  if (block.size() > 0) need.end = (block.end - 1) * stride + offset + extent;
  return outside == Outside::clip ? intersect(need, {0, n}) : need;
}

std::int64_t Window::largest(std::int64_t block, std::int64_t n) const {
  if (is_plain()) return block;
  if (block == 0) return 0;
  const std::int64_t need = (block - 1) * stride + extent;
  return outside == Outside::clip ? std::min(need, n) : need;
}

Box tile_box(const Shape& shape, const Placement& placement, const Windows& windows,
             const MeshShape& mesh, const Coordinates& at) {
  if (windows.empty()) return tile_box(shape, placement, mesh, at);
  Box box = tile_box(cut_shape(shape, windows), placement, mesh, at);
  for (int d = 0; d < shape.rank(); ++d) {
    auto& interval = box[static_cast<std::size_t>(d)];
    interval = window_of(windows, d).of(interval, shape[d].size);
  }
  return box;
}

std::vector<std::int64_t> largest_tile(const Shape& shape, const Placement& placement,
                                       const Windows& windows, const MeshShape& mesh) {
  if (windows.empty()) return largest_tile(shape, placement, mesh);
  auto extents = largest_tile(cut_shape(shape, windows), placement, mesh);
  for (int d = 0; d < shape.rank(); ++d) {
    auto& extent = extents[static_cast<std::size_t>(d)];
    extent = window_of(windows, d).largest(extent, shape[d].size);
  }
  return extents;
}

}  // namespace tessera
