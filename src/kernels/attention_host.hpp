// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstring>

#include "kernels/attention.hpp"
#include "kernels/isa/attention.hpp"
#include "kernels/isa/convert.hpp"
#include "tessera/kernels/gemm.hpp"

/// Pieces that the host's forward and backward attention share.
namespace tessera::kernels {

/// Rows of a matrix in memory.
template <class T>
struct Rows {
  T* data = nullptr;
  std::int64_t ld = 0;

  Rows from(std::int64_t row) const { return {data + row * ld, ld}; }
};

/// Hands out parts of the workspace, each at a multiple of 64 bytes.
class Workspace {
 public:
  explicit Workspace(void* data) : next_(static_cast<char*>(data)) {}

  template <class T>
  T* take(std::int64_t elements) {
    auto* part = reinterpret_cast<T*>(next_);
    next_ += program::round_up_workspace(elements * static_cast<std::int64_t>(sizeof(T)));
    return part;
  }

 private:
  char* next_;
};

/// Reads rows of f32 or bf16 into f32.
inline void load_rows(const Tile& tile, std::int64_t at, std::int64_t ld, std::int64_t rows,
                      std::int64_t n, float* to) {
  for (std::int64_t r = 0; r < rows; ++r) {
    if (tile.dtype == DType::bf16) {
      TESSERA_ISA_CALL(bf16_to_f32)(to + r * n, tile.as<std::uint16_t>() + at + r * ld, n);
    } else {
      std::memcpy(to + r * n, tile.as<float>() + at + r * ld, static_cast<std::size_t>(4 * n));
    }
  }
}

/// Writes rows of f32 as f32 or bf16.
inline void store_rows(const Tile& tile, std::int64_t at, std::int64_t ld, std::int64_t rows,
                       std::int64_t n, const float* from) {
  for (std::int64_t r = 0; r < rows; ++r) {
    if (tile.dtype == DType::bf16) {
      TESSERA_ISA_CALL(f32_to_bf16)(tile.as<std::uint16_t>() + at + r * ld, from + r * n, n);
    } else {
      std::memcpy(tile.as<float>() + at + r * ld, from + r * n, static_cast<std::size_t>(4 * n));
    }
  }
}

/// C [m, n] = alpha op(A) op(B) + beta C, by rows.
template <class T>
void multiply(const device::Exec& exec, bool transpose_a, bool transpose_b, std::int64_t m,
              std::int64_t n, std::int64_t k, double alpha, Rows<const T> a, Rows<const T> b,
              double beta, Rows<T> c) {
  Gemm<T> product;
  product.transpose_a = transpose_a, product.transpose_b = transpose_b;
  product.m = m, product.n = n, product.k = k;
  product.alpha = static_cast<T>(alpha), product.beta = static_cast<T>(beta);
  product.a = a.data, product.lda = a.ld;
  product.b = b.data, product.ldb = b.ld;
  product.c = c.data, product.ldc = c.ld;
  gemm(exec, product);
}

template <class T>
Rows<const T> constant(Rows<T> rows) {
  return {rows.data, rows.ld};
}

/// The queries [i, i + rows) and keys [j, j + columns) that are treated at a time.
struct AttentionBlock {
  std::int64_t i = 0, rows = 0, j = 0, columns = 0;
};

/// f(block) for every block of keys that a block of queries sees a part of.
template <class Function>
void for_each_key_block(const Attention& at, std::int64_t i, std::int64_t rows, const Function& f) {
  const std::int64_t keys = visible_keys(at, i + rows - 1);
  for (std::int64_t j = 0; j < keys; j += program::kKeyBlock) {
    f(AttentionBlock{i, rows, j, std::min(program::kKeyBlock, keys - j)});
  }
}

inline std::int64_t score_columns(const Attention& at) {
  const std::int64_t keys = std::min(at.size.keys, program::kKeyBlock);
  return (keys + program::kScoreLanes - 1) / program::kScoreLanes * program::kScoreLanes;
}

template <class T>
isa::ScoreBlock<T> score_block(const Attention& at, const AttentionBlock& block, Rows<T> scores) {
  static_assert(program::kScoreLanes == isa::kScoreLanes);
  return {scores.data,   scores.ld, block.rows,
          block.columns, at.causal, at.query_offset + block.i + 1 - at.key_offset - block.j};
}

inline isa::ScoreMask score_mask(const Attention& at, std::int64_t batch, std::int64_t head,
                                 std::int64_t group, const AttentionBlock& block) {
  return {at.drops,
          at.key,
          at.step,
          mask_index(at, batch, head, group, block.i, block.j),
          static_cast<std::uint64_t>(at.all_keys),
          at.threshold,
          at.factor};
}

}  // namespace tessera::kernels
