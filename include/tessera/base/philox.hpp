// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "tessera/base/function.hpp"

namespace tessera {

/// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11): four random
/// words of a 128-bit counter and a 64-bit key. Counter-based, so a draw depends on nothing but its
/// name: (seed, stream, step, index), and is the same on every mesh.
struct Philox {
  std::uint32_t word[4];
};

TESSERA_FUNCTION Philox philox4x32(std::uint64_t key, std::uint64_t counter_low,
                                   std::uint64_t counter_high) {
  std::uint32_t c0 = static_cast<std::uint32_t>(counter_low);
  std::uint32_t c1 = static_cast<std::uint32_t>(counter_low >> 32);
  std::uint32_t c2 = static_cast<std::uint32_t>(counter_high);
  std::uint32_t c3 = static_cast<std::uint32_t>(counter_high >> 32);
  std::uint32_t k0 = static_cast<std::uint32_t>(key);
  std::uint32_t k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = 0xD2511F53ULL * c0;
    const std::uint64_t p1 = 0xCD9E8D57ULL * c2;
    const std::uint32_t n0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
    const std::uint32_t n2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<std::uint32_t>(p1);
    c3 = static_cast<std::uint32_t>(p0);
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  return {{c0, c1, c2, c3}};
}

/// Word `index % 4` of the block that holds element `index` of stream `key` at `step`.
TESSERA_FUNCTION std::uint32_t random_word(std::uint64_t key, std::uint64_t step,
                                           std::uint64_t index) {
  return philox4x32(key, index >> 2, step).word[index & 3];
}

/// Uniform in (0, 1), 24 bits, never 0 or 1: exact in f32 and in f64 alike.
TESSERA_FUNCTION double uniform_of(std::uint32_t word) {
  return ((word >> 8) + 0.5) * (1.0 / 16777216.0);
}

/// Key of the stream `name_hash` under the run's seed.
TESSERA_FUNCTION std::uint64_t stream_key(std::uint64_t seed, std::uint64_t name_hash) {
  std::uint64_t z = seed * 0x9e3779b97f4a7c15ULL ^ name_hash;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

}  // namespace tessera
