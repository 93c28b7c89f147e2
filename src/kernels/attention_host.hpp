// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "kernels/attention.hpp"
#include "kernels/isa/attention.hpp"
#include "kernels/isa/convert.hpp"
#include "kernels/isa/panels.hpp"
#include "kernels/workspace.hpp"
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

/// The right factor B [k, n] of several products. In f32 it is packed in panels once; blocks are
/// too small for BLAS to be at its best. In f64 it stays where it lies and goes to BLAS.
template <class T>
class RightFactor {
 public:
  RightFactor() = default;
  /// Room for `k` x `n`.
  RightFactor(Workspace& workspace, std::int64_t k, std::int64_t n) {
    if constexpr (std::is_same_v<T, float>) {
      panels_ = workspace.take<float>(k * program::panel_columns(n));
    }
  }

  /// B is `from` [k, n], or if transposed its transpose lies there: [n, k].
  void set(Rows<T> from, bool transposed, std::int64_t k, std::int64_t n) {
    from_ = from, transposed_ = transposed, k_ = k;
    if constexpr (std::is_same_v<T, float>) {
      TESSERA_ISA_CALL(pack_panels_f32)(panels_, from.data, from.ld, transposed, n, k);
    }
  }

  /// C [m, n] (+)= alpha A B[row .. row + k, column .. column + n]; A is stored [m, k], or [k, m].
  void multiply(const device::Exec& exec, std::int64_t m, std::int64_t n, std::int64_t k,
                double alpha, Rows<T> a, bool transposed_a, std::int64_t row, std::int64_t column,
                bool accumulate, Rows<T> c) const {
    if constexpr (std::is_same_v<T, float>) {
      TESSERA_ISA_CALL(multiply_panels_f32)
      (m, n, k, static_cast<float>(alpha), a.data, a.ld, transposed_a, panels_, k_, row, column,
       c.data, c.ld, accumulate);
    } else {
      Gemm<T> product;
      product.transpose_a = transposed_a, product.transpose_b = transposed_;
      product.m = m, product.n = n, product.k = k;
      product.alpha = alpha, product.beta = accumulate ? 1 : 0;
      product.a = a.data, product.lda = a.ld;
      product.b =
          transposed_ ? from_.data + column * from_.ld + row : from_.data + row * from_.ld + column;
      product.ldb = from_.ld;
      product.c = c.data, product.ldc = c.ld;
      gemm(exec, product);
    }
  }

 private:
  Rows<T> from_;
  bool transposed_ = false;
  std::int64_t k_ = 0;
  float* panels_ = nullptr;
};

/// The queries [i, i + rows) and keys [j, j + columns) that are treated at a time.
struct AttentionBlock {
  std::int64_t i = 0, rows = 0, j = 0, columns = 0;
};

/// Narrows keys [begin, end) to those that the segments may let a block of queries see: from the
/// first to the last that lies between the block's least and greatest.
inline KeyRange narrow_by_segments(const Attention& at, std::int64_t batch, std::int64_t i,
                                   std::int64_t rows, KeyRange keys) {
  if (at.query_segments == nullptr) return keys;
  const std::int32_t* queries = at.query_segments + batch * at.size.queries + i;
  std::int32_t least = 0, greatest = 0;
  for (std::int64_t r = 0; r < rows; ++r) {
    if (queries[r] == 0) continue;
    const bool first = least == 0 && greatest == 0;
    least = first ? queries[r] : std::min(least, queries[r]);
    greatest = first ? queries[r] : std::max(greatest, queries[r]);
  }
  if (least == 0 && greatest == 0) return {0, 0};
  const std::int32_t* ids = at.key_segments + batch * at.size.keys;
  const auto outside = [&](std::int64_t j) { return ids[j] < least || ids[j] > greatest; };
  while (keys.begin < keys.end && outside(keys.begin)) ++keys.begin;
  while (keys.begin < keys.end && outside(keys.end - 1)) --keys.end;
  return keys;
}

/// f(block) for every block of keys in a range that a block of queries sees a part of.
template <class Function>
void for_each_key_block(const Attention& at, std::int64_t batch, std::int64_t i, std::int64_t rows,
                        KeyRange range, const Function& f) {
  const std::int64_t begin = std::max(range.begin, visible_keys(at, i).begin);
  const std::int64_t end = std::min(range.end, visible_keys(at, i + rows - 1).end);
  if (begin >= end) return;
  const KeyRange keys = narrow_by_segments(at, batch, i, rows, {begin, end});
  // Panels are cut at multiples of their width only.
  for (std::int64_t j = keys.begin / program::kPanelWidth * program::kPanelWidth; j < keys.end;
       j += program::kKeyBlock) {
    f(AttentionBlock{i, rows, j, std::min(program::kKeyBlock, keys.end - j)});
  }
}

/// A head's bias for each diagonal of the scores: the one of query i and key j lies at
/// (j - i) + queries - 1.
template <class T>
void spread_bias(const Attention& at, std::int64_t head, std::int64_t group, T* diagonals) {
  const T* bias = static_cast<const T*>(at.bias) + (head * at.size.group + group) * at.size.buckets;
  const std::int64_t first = at.key_offset - at.query_offset - at.size.queries + 1;
  for (std::int64_t d = 0; d < at.size.queries + at.size.keys - 1; ++d) {
    diagonals[d] = bias[bucket_of(at.buckets, first + d)];
  }
}

/// Adds the gradients of a head's diagonals to those of its biases.
template <class T>
void gather_bias(const Attention& at, std::int64_t head, std::int64_t group, const T* diagonals,
                 T* dbias) {
  dbias += (head * at.size.group + group) * at.size.buckets;
  const std::int64_t first = at.key_offset - at.query_offset - at.size.queries + 1;
  for (std::int64_t d = 0; d < at.size.queries + at.size.keys - 1; ++d) {
    dbias[bucket_of(at.buckets, first + d)] += diagonals[d];
  }
}

inline std::int64_t score_columns(const Attention& at) {
  return program::score_row(at.size.keys);
}

/// `diagonals` and `ddiagonals`: a head's bias and its gradient by distance; null without one.
template <class T>
isa::ScoreBlock<T> score_block(const Attention& at, std::int64_t batch, const AttentionBlock& block,
                               Rows<T> scores, const T* diagonals, T* ddiagonals) {
  static_assert(program::kScoreLanes == isa::kScoreLanes);
  static_assert(program::kPanelWidth == isa::kPanelWidth);
  static_assert(program::kKeyBlock % isa::kPanelWidth == 0);
  const std::int64_t position = at.query_offset + block.i - at.key_offset - block.j;
  isa::ScoreBlock<T> result{};
  result.scores = scores.data, result.ld = scores.ld;
  result.rows = block.rows, result.columns = block.columns;
  result.begin = position - at.left, result.end = position + at.right + 1;
  if (at.query_segments != nullptr) {
    result.query_segments = at.query_segments + batch * at.size.queries + block.i;
    result.key_segments = at.key_segments + batch * at.size.keys + block.j;
  }
  const std::int64_t first = block.j - block.i + at.size.queries - 1;
  if (diagonals != nullptr) result.bias = diagonals + first;
  if (ddiagonals != nullptr) result.dbias = ddiagonals + first;
  return result;
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
