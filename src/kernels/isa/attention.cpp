// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/isa/attention.hpp"

#include "kernels/isa/math.hpp"
#include "kernels/isa/random.hpp"

namespace tessera::kernels::isa::TESSERA_ISA {
namespace {

constexpr int64_t kWords = 256;

template <class T>
T lowest();
template <>
float lowest<float>() {
  return -3.402823466e38f;
}
template <>
double lowest<double>() {
  return -1.7976931348623157e308;
}

struct Columns {
  int64_t begin, end;
};

int64_t clamp(int64_t n, int64_t low, int64_t high) {
  return n < low ? low : n > high ? high : n;
}

template <class T>
Columns visible_in(const ScoreBlock<T>& block, int64_t row) {
  const int64_t end = clamp(block.end + row, 0, block.columns);
  return {clamp(block.begin + row, 0, end), end};
}

/// Columns up to the next whole group of lanes.
int64_t whole_groups(int64_t n) {
  return (n + kScoreLanes - 1) / kScoreLanes * kScoreLanes;
}

/// Largest of `start` and x; n is a multiple of kScoreLanes, so that halves are whole vectors.
template <class T>
T row_maximum(const T* x, int64_t n, T start) {
  const T* upper = x + n / 2;
  T m0 = start, m1 = start;
#pragma omp simd reduction(max : m0, m1)
  for (int64_t j = 0; j < n / 2; ++j) {
    m0 = x[j] > m0 ? x[j] : m0;
    m1 = upper[j] > m1 ? upper[j] : m1;
  }
  return m1 > m0 ? m1 : m0;
}

template <class T>
T row_dot(const T* x, const T* y, int64_t n) {
  const int64_t half = n / 2;
  const T *x1 = x + half, *y1 = y + half;
  T s0 = 0, s1 = 0;
#pragma omp simd reduction(+ : s0, s1)
  for (int64_t j = 0; j < half; ++j) {
    s0 += x[j] * y[j];
    s1 += x1[j] * y1[j];
  }
  if (n % 2 == 1) s0 += x[n - 1] * y[n - 1];
  return s0 + s1;
}

/// Hides what the row does not see, up to a whole group: no remainder runs one element at a time,
/// and the exponential of the lowest number is 0.
template <class T>
void hide(const ScoreBlock<T>& block, int64_t row, Columns seen, T* x) {
  for (int64_t j = 0; j < seen.begin; ++j) x[j] = lowest<T>();
  for (int64_t j = seen.end; j < whole_groups(seen.end); ++j) x[j] = lowest<T>();
  if (block.query_segments == nullptr) return;
  const int32_t id = block.query_segments[row];
  const int32_t* ids = block.key_segments;
  for (int64_t j = seen.begin; j < seen.end; ++j) {
    x[j] = id != 0 && ids[j] == id ? x[j] : lowest<T>();
  }
}

template <class T>
void add_bias(const ScoreBlock<T>& block, int64_t row, Columns seen, T* x) {
  if (block.bias == nullptr) return;
  const T* bias = block.bias - row;
#pragma omp simd
  for (int64_t j = seen.begin; j < seen.end; ++j) x[j] += bias[j];
}

/// What to take off the scores of a row before the exponential; of a row that has seen nothing, so
/// that all become 0, nothing.
template <class T>
T shift_of(T maximum) {
  return maximum == lowest<T>() ? T(0) : maximum;
}

/// exp(x - shift) for the first n, of which whole groups are hidden behind n, 0 for the rest up to
/// `columns`. Returns their sum.
template <class T>
T exponentials(T* x, int64_t n, int64_t columns, T shift) {
  const int64_t width = whole_groups(n), all = whole_groups(columns);
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t j = 0; j < width; ++j) {
    const T e = exp(x[j] - shift);
    x[j] = e;
    sum += e;
  }
  for (int64_t j = width; j < all; ++j) x[j] = 0;
  return sum;
}

/// factor where the stream keeps the element, else 0, for columns [first, first + n) of a row.
template <class T>
void mask_factors(const ScoreMask& mask, int64_t row, int64_t first, int64_t n, T* factor) {
  uint32_t words[kWords];
  random_words(mask.key, mask.step, mask.first + mask.row * row + first, n, words);
  const T kept = static_cast<T>(mask.factor);
  // A threshold of 2^32 would keep nothing; it fits once 1 is taken off both sides.
  const uint32_t limit = static_cast<uint32_t>(mask.threshold - 1);
  const bool keeps_all = mask.threshold == 0;
  for (int64_t j = 0; j < n; ++j) factor[j] = keeps_all || words[j] > limit ? kept : T(0);
}

template <class T>
void apply_mask(const ScoreMask& mask, int64_t row, int64_t n, T* x) {
  T factor[kWords];
  for (int64_t first = 0; first < n; first += kWords) {
    const int64_t count = n - first < kWords ? n - first : kWords;
    mask_factors(mask, row, first, count, factor);
    for (int64_t j = 0; j < count; ++j) x[first + j] *= factor[j];
  }
}

template <class T>
void softmax(const ScoreBlock<T>& block, const ScoreMask& mask, T* maximum, T* sum, T* rescale) {
  for (int64_t r = 0; r < block.rows; ++r) {
    T* x = block.scores + r * block.ld;
    const Columns seen = visible_in(block, r);
    const int64_t n = seen.end;
    const T old = maximum[r];
    add_bias(block, r, seen, x);
    hide(block, r, seen, x);
    const T now = row_maximum(x, whole_groups(n), old);
    const T added = exponentials(x, n, block.columns, shift_of(now));
    rescale[r] = exp(old - now);
    maximum[r] = now;
    sum[r] = sum[r] * rescale[r] + added;
    if (mask.active) apply_mask(mask, r, n, x);
  }
}

template <class T>
void scale_rows(T* x, int64_t ld, int64_t rows, int64_t n, const T* by) {
  for (int64_t r = 0; r < rows; ++r) {
    T* row = x + r * ld;
    const T factor = by[r];
    if (factor == T(1)) continue;
    if (factor == T(0)) {
      for (int64_t j = 0; j < n; ++j) row[j] = 0;
    } else {
      for (int64_t j = 0; j < n; ++j) row[j] *= factor;
    }
  }
}

template <class T>
void finish(const T* maximum, T* sum, T* lse, int64_t rows) {
  for (int64_t r = 0; r < rows; ++r) {
    const bool empty = sum[r] == T(0);
    lse[r] = empty ? lowest<T>() : maximum[r] + log(sum[r]);
    sum[r] = empty ? T(0) : T(1) / sum[r];
  }
}

template <class T>
void row_dots(const T* x, int64_t ld_x, const T* y, int64_t ld_y, int64_t rows, int64_t n,
              T* delta) {
  for (int64_t r = 0; r < rows; ++r) delta[r] = row_dot(x + r * ld_x, y + r * ld_y, n);
}

template <class T>
void masked_dscores(const ScoreMask& mask, int64_t row, int64_t n, T* p, T* dp, T delta) {
  T factor[kWords];
  for (int64_t first = 0; first < n; first += kWords) {
    const int64_t count = n - first < kWords ? n - first : kWords;
    mask_factors(mask, row, first, count, factor);
    for (int64_t j = 0; j < count; ++j) {
      const T probability = p[first + j];
      dp[first + j] = probability * (dp[first + j] * factor[j] - delta);
      p[first + j] = probability * factor[j];
    }
  }
}

template <class T>
void dscores(const ScoreBlock<T>& block, const ScoreMask& mask, T* dprobabilities, const T* lse,
             const T* delta) {
  for (int64_t r = 0; r < block.rows; ++r) {
    T* p = block.scores + r * block.ld;
    T* dp = dprobabilities + r * block.ld;
    const Columns seen = visible_in(block, r);
    const int64_t n = seen.end;
    add_bias(block, r, seen, p);
    hide(block, r, seen, p);
    exponentials(p, n, block.columns, shift_of(lse[r]));
    if (mask.active) {
      masked_dscores(mask, r, n, p, dp, delta[r]);
    } else {
      for (int64_t j = 0; j < n; ++j) dp[j] = p[j] * (dp[j] - delta[r]);
    }
    for (int64_t j = n; j < block.columns; ++j) dp[j] = 0;
    if (block.dbias == nullptr) continue;
    T* dbias = block.dbias - r;
#pragma omp simd
    for (int64_t j = seen.begin; j < n; ++j) dbias[j] += dp[j];
  }
}

}  // namespace

void attention_softmax_f32(const ScoreBlock<float>& block, const ScoreMask& mask, float* maximum,
                           float* sum, float* rescale) {
  softmax(block, mask, maximum, sum, rescale);
}
void attention_softmax_f64(const ScoreBlock<double>& block, const ScoreMask& mask, double* maximum,
                           double* sum, double* rescale) {
  softmax(block, mask, maximum, sum, rescale);
}

void attention_scale_rows_f32(float* x, int64_t ld, int64_t rows, int64_t n, const float* by) {
  scale_rows(x, ld, rows, n, by);
}
void attention_scale_rows_f64(double* x, int64_t ld, int64_t rows, int64_t n, const double* by) {
  scale_rows(x, ld, rows, n, by);
}

void attention_finish_f32(const float* maximum, float* sum, float* lse, int64_t rows) {
  finish(maximum, sum, lse, rows);
}
void attention_finish_f64(const double* maximum, double* sum, double* lse, int64_t rows) {
  finish(maximum, sum, lse, rows);
}

void attention_row_dots_f32(const float* x, int64_t ld_x, const float* y, int64_t ld_y,
                            int64_t rows, int64_t n, float* delta) {
  row_dots(x, ld_x, y, ld_y, rows, n, delta);
}
void attention_row_dots_f64(const double* x, int64_t ld_x, const double* y, int64_t ld_y,
                            int64_t rows, int64_t n, double* delta) {
  row_dots(x, ld_x, y, ld_y, rows, n, delta);
}

void attention_dscores_f32(const ScoreBlock<float>& block, const ScoreMask& mask,
                           float* dprobabilities, const float* lse, const float* delta) {
  dscores(block, mask, dprobabilities, lse, delta);
}
void attention_dscores_f64(const ScoreBlock<double>& block, const ScoreMask& mask,
                           double* dprobabilities, const double* lse, const double* delta) {
  dscores(block, mask, dprobabilities, lse, delta);
}

}  // namespace tessera::kernels::isa::TESSERA_ISA
