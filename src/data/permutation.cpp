// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/data/permutation.hpp"

#include <bit>

#include "tessera/base/error.hpp"
#include "tessera/base/philox.hpp"

namespace tessera::data {
namespace {

constexpr int kRounds = 8;

/// A bijection of [0, 2^bits). The halves differ in length by at most one bit; each round changes
/// one of them by a function of the other, so it can be undone.
std::uint64_t scramble(std::uint64_t value, int bits, std::uint64_t key) {
  const int low_bits = bits / 2;
  const std::uint64_t low_mask = (std::uint64_t{1} << low_bits) - 1;
  const std::uint64_t high_mask = (std::uint64_t{1} << (bits - low_bits)) - 1;
  std::uint64_t low = value & low_mask;
  std::uint64_t high = value >> low_bits;
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    std::uint64_t& changed = round % 2 == 0 ? high : low;
    const std::uint64_t other = round % 2 == 0 ? low : high;
    const Philox random = philox4x32(key, other, round);
    const std::uint64_t word = (std::uint64_t{random.word[0]} << 32) | random.word[1];
    changed ^= word & (round % 2 == 0 ? high_mask : low_mask);
  }
  return (high << low_bits) | low;
}

}  // namespace

std::int64_t permute(std::int64_t index, std::int64_t size, std::uint64_t key) {
  TESSERA_CHECK(index >= 0 && index < size, "element ", index, " of a permutation of ", size);
  const auto limit = static_cast<std::uint64_t>(size);
  const int bits = std::bit_width(limit - 1);
  if (bits == 0) return 0;
  // A walk along the bijection's cycle returns to the index at the latest, so it ends.
  auto value = static_cast<std::uint64_t>(index);
  do value = scramble(value, bits, key);
  while (value >= limit);
  return static_cast<std::int64_t>(value);
}

}  // namespace tessera::data
