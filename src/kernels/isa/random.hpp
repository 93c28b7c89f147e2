// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <stdint.h>

// The same draws as tessera/base/philox.hpp, for files that are compiled once for each level:
// static, so that each level keeps its own copy. A test compares the two word by word.
namespace tessera::kernels::isa::TESSERA_ISA {

/// Words 0 .. 3 of block `block` of stream `key` at `step`.
static inline void philox_block(uint64_t key, uint64_t step, uint64_t block, uint32_t word[4]) {
  uint32_t c0 = static_cast<uint32_t>(block), c1 = static_cast<uint32_t>(block >> 32);
  uint32_t c2 = static_cast<uint32_t>(step), c3 = static_cast<uint32_t>(step >> 32);
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = UINT64_C(0xD2511F53) * c0;
    const uint64_t p1 = UINT64_C(0xCD9E8D57) * c2;
    c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<uint32_t>(p1);
    c3 = static_cast<uint32_t>(p0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  word[0] = c0;
  word[1] = c1;
  word[2] = c2;
  word[3] = c3;
}

/// words[i] = random_word(key, step, first + i) for i in [0, n).
static inline void random_words(uint64_t key, uint64_t step, uint64_t first, int64_t n,
                                uint32_t* words) {
  int64_t i = 0;
  uint32_t edge[4];
  for (; i < n && ((first + i) & 3) != 0; ++i) {
    philox_block(key, step, (first + i) >> 2, edge);
    words[i] = edge[(first + i) & 3];
  }
  const int64_t blocks = (n - i) / 4;
  const uint64_t first_block = (first + i) >> 2;
  for (int64_t b = 0; b < blocks; ++b) {
    philox_block(key, step, first_block + b, words + i + 4 * b);
  }
  for (i += 4 * blocks; i < n; ++i) {
    philox_block(key, step, (first + i) >> 2, edge);
    words[i] = edge[(first + i) & 3];
  }
}

}  // namespace tessera::kernels::isa::TESSERA_ISA
