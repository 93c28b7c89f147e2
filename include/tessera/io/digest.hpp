// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>

#include "tessera/base/dtype.hpp"
#include "tessera/shape/shape.hpp"
#include "tessera/shape/tile.hpp"

namespace tessera::io {

/// 128-bit digest of a tensor that does not depend on how it is cut: two sums (mod 2^64) over all
/// elements of a function of (global index, bits). Tiles' digests add up to the tensor's. Any
/// change of a single element changes `low`.
struct Digest {
  std::uint64_t low = 0;
  std::uint64_t high = 0;

  Digest& operator+=(const Digest& other);
  bool operator==(const Digest&) const = default;
  /// 32 hexadecimal digits, `high` first.
  std::string to_string() const;
  /// Inverse of to_string; UserError.
  static Digest parse(const std::string& text);
};

/// Digest of the elements of `box` of a tensor of `shape`, whose tile is dense and row-major.
///   z = bits + (index + 1) * 0x9e3779b97f4a7c15;  z = (z ^ z >> 32) * 0xd6e8feb86659fd93
///   low += z ^ z >> 29;  high += (low's term * 0xbf58476d1ce4e5b9) ^ itself >> 32
Digest digest_tile(DType dtype, const Shape& shape, const Box& box, const void* tile);

}  // namespace tessera::io
