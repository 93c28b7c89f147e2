// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <stdint.h>

#include "kernels/isa/isa.hpp"

// What attention does to a block of scores between its matrix products.
namespace tessera::kernels::isa {

/// A block of scores [rows, columns], `ld` apart, a multiple of kScoreLanes; the columns up to the
/// next multiple of that belong to the block and may be written. Row r sees the columns
/// [begin + r, end + r) of them, where the segments, if there are any, are equal and not 0.
template <class T>
struct ScoreBlock {
  T* scores;
  int64_t ld;
  int64_t rows;
  int64_t columns;
  int64_t begin;
  int64_t end;
  const int32_t* query_segments;  ///< of the rows; null: none
  const int32_t* key_segments;    ///< of the columns
  const T* bias;                  ///< bias[j - r] is added to the score (r, j); null: none
  T* dbias;                       ///< its gradient, which is added to
};
constexpr int64_t kScoreLanes = 16;

/// Mask of a block: element (r, j) has the index first + r * row + j in the stream.
struct ScoreMask {
  bool active;
  uint64_t key;
  uint64_t step;
  uint64_t first;
  uint64_t row;
  uint64_t threshold;  ///< kept from this word on
  double factor;       ///< of what is kept
};

}  // namespace tessera::kernels::isa

// Scores plus bias become exp(score - maximum), hidden ones 0, and the mask is applied; running
// `maximum` and `sum` (of what the mask left out too) follow, and `rescale` gets what the rows'
// earlier sums are to be multiplied by. A row that has seen nothing has the lowest number as its
// maximum.
TESSERA_ISA_DECLARE(void, attention_softmax_f32,
                    (const ScoreBlock<float>& block, const ScoreMask& mask, float* maximum,
                     float* sum, float* rescale))
TESSERA_ISA_DECLARE(void, attention_softmax_f64,
                    (const ScoreBlock<double>& block, const ScoreMask& mask, double* maximum,
                     double* sum, double* rescale))

// Row r of x [rows, n] times by[r]; zeros, whatever x holds, if that is 0.
TESSERA_ISA_DECLARE(void, attention_scale_rows_f32,
                    (float* x, int64_t ld, int64_t rows, int64_t n, const float* by))
TESSERA_ISA_DECLARE(void, attention_scale_rows_f64,
                    (double* x, int64_t ld, int64_t rows, int64_t n, const double* by))

// Sums become their reciprocals (0 for rows that have seen nothing); lse[r] = maximum + log(sum).
TESSERA_ISA_DECLARE(void, attention_finish_f32,
                    (const float* maximum, float* sum, float* lse, int64_t rows))
TESSERA_ISA_DECLARE(void, attention_finish_f64,
                    (const double* maximum, double* sum, double* lse, int64_t rows))

// delta[r] = sum over n of x y, row by row.
TESSERA_ISA_DECLARE(void, attention_row_dots_f32,
                    (const float* x, int64_t ld_x, const float* y, int64_t ld_y, int64_t rows,
                     int64_t n, float* delta))
TESSERA_ISA_DECLARE(void, attention_row_dots_f64,
                    (const double* x, int64_t ld_x, const double* y, int64_t ld_y, int64_t rows,
                     int64_t n, double* delta))

// From scores and dprobabilities (both [rows, columns], same ld): the masked probabilities, which
// replace the scores, and dscores = p (dp - delta), which replace dprobabilities and are added to
// dbias.
TESSERA_ISA_DECLARE(void, attention_dscores_f32,
                    (const ScoreBlock<float>& block, const ScoreMask& mask, float* dprobabilities,
                     const float* lse, const float* delta))
TESSERA_ISA_DECLARE(void, attention_dscores_f64,
                    (const ScoreBlock<double>& block, const ScoreMask& mask, double* dprobabilities,
                     const double* lse, const double* delta))
