// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/shape/mesh_shape.hpp"
#include "tessera/shape/placement.hpp"
#include "tessera/shape/shape.hpp"

namespace tessera {

/// Half-open range of indices.
struct Interval {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t size() const { return end > begin ? end - begin : 0; }
  bool operator==(const Interval&) const = default;
};

/// The one distribution of Tessera: part i of p of [0, n) is [floor(i n / p), floor((i+1) n / p)).
/// Sizes need not divide, and a part may be empty.
Interval block(std::int64_t n, std::int64_t parts, std::int64_t i);
/// The same of an interval: what a second cut leaves.
Interval block(const Interval& whole, std::int64_t parts, std::int64_t i);
Interval intersect(const Interval& a, const Interval& b);

/// The box of global indices that a rank holds: one interval for each tensor dim. (A scalar has no
/// interval to be empty: who holds it on a mesh dim where it is `at`, its placement says.)
using Box = std::vector<Interval>;
Box whole_box(const Shape& shape);
Box tile_box(const Shape& shape, const Placement& placement, const MeshShape& mesh,
             const Coordinates& at);
std::int64_t volume(const Box& box);

/// Extents of the largest tile over all ranks, in closed form (no loop over ranks).
std::vector<std::int64_t> largest_tile(const Shape& shape, const Placement& placement,
                                       const MeshShape& mesh);
std::int64_t largest_tile_size(const Shape& shape, const Placement& placement,
                               const MeshShape& mesh);

}  // namespace tessera
