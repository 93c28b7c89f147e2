// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <stdint.h>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

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

#if defined(__SSE2__)
// Several blocks side by side, each number in the low half of a 64-bit lane: the products read only
// that half, so the upper halves may hold anything.
#if defined(__AVX512F__)
typedef uint64_t PhiloxLanes __attribute__((vector_size(64)));
static inline PhiloxLanes philox_product(PhiloxLanes a, PhiloxLanes b) {
  // Not _mm512_mul_epu32, in whose header GCC 12 sees an uninitialised variable.
  return (PhiloxLanes)_mm512_maskz_mul_epu32(0xFF, (__m512i)a, (__m512i)b);
}
static inline PhiloxLanes philox_numbers(uint64_t first) {
  return PhiloxLanes{0, 1, 2, 3, 4, 5, 6, 7} + first;
}
static inline void philox_interleave(PhiloxLanes low, PhiloxLanes high, PhiloxLanes out[2]) {
  out[0] = __builtin_shufflevector(low, high, 0, 8, 1, 9, 2, 10, 3, 11);
  out[1] = __builtin_shufflevector(low, high, 4, 12, 5, 13, 6, 14, 7, 15);
}
#elif defined(__AVX2__)
typedef uint64_t PhiloxLanes __attribute__((vector_size(32)));
static inline PhiloxLanes philox_product(PhiloxLanes a, PhiloxLanes b) {
  return (PhiloxLanes)_mm256_mul_epu32((__m256i)a, (__m256i)b);
}
static inline PhiloxLanes philox_numbers(uint64_t first) {
  return PhiloxLanes{0, 1, 2, 3} + first;
}
static inline void philox_interleave(PhiloxLanes low, PhiloxLanes high, PhiloxLanes out[2]) {
  out[0] = __builtin_shufflevector(low, high, 0, 4, 1, 5);
  out[1] = __builtin_shufflevector(low, high, 2, 6, 3, 7);
}
#else
typedef uint64_t PhiloxLanes __attribute__((vector_size(16)));
static inline PhiloxLanes philox_product(PhiloxLanes a, PhiloxLanes b) {
  return (PhiloxLanes)_mm_mul_epu32((__m128i)a, (__m128i)b);
}
static inline PhiloxLanes philox_numbers(uint64_t first) {
  return PhiloxLanes{0, 1} + first;
}
static inline void philox_interleave(PhiloxLanes low, PhiloxLanes high, PhiloxLanes out[2]) {
  out[0] = __builtin_shufflevector(low, high, 0, 2);
  out[1] = __builtin_shufflevector(low, high, 1, 3);
}
#endif

static const int kPhiloxLanes = sizeof(PhiloxLanes) / 8;

/// Blocks first .. first + 2 kPhiloxLanes - 1, two vectors at a time to hide the products' latency.
static inline void philox_lanes(uint64_t key, uint64_t step, uint64_t first, uint32_t* words) {
  const PhiloxLanes zero = {};
  const PhiloxLanes m0 = zero + UINT64_C(0xD2511F53), m1 = zero + UINT64_C(0xCD9E8D57);
  PhiloxLanes c0[2], c1[2], c2[2], c3[2];
  for (int v = 0; v < 2; ++v) {
    c0[v] = philox_numbers(first + static_cast<uint64_t>(v) * kPhiloxLanes);
    c1[v] = c0[v] >> 32;
    c2[v] = zero + step;
    c3[v] = zero + (step >> 32);
  }
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const PhiloxLanes keys0 = zero + static_cast<uint64_t>(k0);
    const PhiloxLanes keys1 = zero + static_cast<uint64_t>(k1);
    for (int v = 0; v < 2; ++v) {
      const PhiloxLanes p0 = philox_product(m0, c0[v]), p1 = philox_product(m1, c2[v]);
      c0[v] = (p1 >> 32) ^ c1[v] ^ keys0;
      c2[v] = (p0 >> 32) ^ c3[v] ^ keys1;
      c1[v] = p1;
      c3[v] = p0;
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  for (int v = 0; v < 2; ++v) {
    PhiloxLanes out[2];
    philox_interleave((c0[v] & 0xFFFFFFFFu) | (c1[v] << 32), (c2[v] & 0xFFFFFFFFu) | (c3[v] << 32),
                      out);
    __builtin_memcpy(words + v * 4 * kPhiloxLanes, out, sizeof out);
  }
}
#endif

/// words[i] = random_word(key, step, first + i) for i in [0, n).
static inline void random_words(uint64_t key, uint64_t step, uint64_t first, int64_t n,
                                uint32_t* words) {
  int64_t i = 0;
  uint32_t edge[4];
  for (; i < n && ((first + i) & 3) != 0; ++i) {
    philox_block(key, step, (first + i) >> 2, edge);
    words[i] = edge[(first + i) & 3];
  }
#if defined(__SSE2__)
  for (; i + 8 * kPhiloxLanes <= n; i += 8 * kPhiloxLanes) {
    philox_lanes(key, step, (first + i) >> 2, words + i);
  }
#endif
  for (; i + 4 <= n; i += 4) philox_block(key, step, (first + i) >> 2, words + i);
  for (; i < n; ++i) {
    philox_block(key, step, (first + i) >> 2, edge);
    words[i] = edge[(first + i) & 3];
  }
}

}  // namespace tessera::kernels::isa::TESSERA_ISA
