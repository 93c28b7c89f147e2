// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tessera::data {

/// 128 bits that tell one content from another (not a defence against forgery).
struct Digest {
  std::uint64_t low = 0;
  std::uint64_t high = 0;

  /// Mixes one more word in; the order of words matters.
  Digest& add(std::uint64_t word);
  Digest& add(const Digest& other) { return add(other.low).add(other.high); }
  Digest& add(std::string_view text);
  /// Adds bytes that start at `offset` (a multiple of 8) of a content. Pieces may come in any order
  /// and any cut at multiples of 8: the digest is a sum over 8-byte words of mix(index, word).
  Digest& add_bytes(std::int64_t offset, const unsigned char* bytes, std::size_t count);

  /// 32 hexadecimal digits.
  std::string to_string() const;
  bool operator==(const Digest&) const = default;
};

}  // namespace tessera::data
