// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/shape/tile.hpp"

namespace tessera {

/// Which interval of a source dim of n elements each block of another dim needs. Block [a, b) of
/// [0, count) needs [a * stride + offset, (b - 1) * stride + offset + extent); an empty block
/// needs nothing. A convolution's halo, a strided slice, a dim merged of (count, stride) and local
/// attention are windows.
struct Window {
  /// What lies outside [0, n): stays in the interval and is filled, is cut off, or is taken from
  /// the other end (index modulo n).
  enum class Outside : std::uint8_t { fill, clip, wrap };

  std::int64_t count = -1;  ///< size of the dim whose blocks are meant; -1: the source dim itself
  std::int64_t stride = 1;
  std::int64_t offset = 0;
  std::int64_t extent = 1;
  Outside outside = Outside::fill;

  /// No window: a block is its own interval.
  static Window plain() { return {}; }
  /// What a window of `extent` elements around each output needs: output i of `count` begins at
  /// i * stride - before.
  static Window sliding(std::int64_t count, std::int64_t stride, std::int64_t before,
                        std::int64_t extent, Outside outside = Outside::fill) {
    return {count, stride, -before, extent, outside};
  }
  /// `before` and `after` more elements around each block of a dim of n elements.
  static Window halo(std::int64_t n, std::int64_t before, std::int64_t after,
                     Outside outside = Outside::fill) {
    return {n, 1, -before, before + 1 + after, outside};
  }

  bool is_plain() const { return count < 0; }
  /// The number of elements whose blocks are meant.
  std::int64_t blocks_of(std::int64_t n) const { return is_plain() ? n : count; }
  /// What the block needs of a source dim of n elements.
  Interval of(const Interval& block, std::int64_t n) const;
  /// Elements that the largest of the blocks of at most `block` elements needs: with `clip` an
  /// upper bound, as blocks at the ends need less.
  std::int64_t largest(std::int64_t block, std::int64_t n) const;
  bool operator==(const Window&) const = default;
};

/// A window for each tensor dim; empty: all plain.
using Windows = std::vector<Window>;

Box tile_box(const Shape& shape, const Placement& placement, const Windows& windows,
             const MeshShape& mesh, const Coordinates& at);
/// In closed form.
std::vector<std::int64_t> largest_tile(const Shape& shape, const Placement& placement,
                                       const Windows& windows, const MeshShape& mesh);

}  // namespace tessera
