// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string_view>

namespace tessera {

/// FNV-1a, 64 bits: equal on every machine and in every run, unlike std::hash.
constexpr std::uint64_t hash_text(std::string_view text,
                                  std::uint64_t seed = 14695981039346656037ULL) {
  std::uint64_t hash = seed;
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return hash;
}

/// Mixes a 64-bit value into a hash; order matters (SplitMix64's finaliser).
constexpr std::uint64_t hash_combine(std::uint64_t hash, std::uint64_t value) {
  std::uint64_t z = hash + 0x9e3779b97f4a7c15ULL + value;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

}  // namespace tessera
