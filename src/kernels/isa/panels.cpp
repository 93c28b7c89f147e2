// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/isa/panels.hpp"

#include <string.h>

namespace tessera::kernels::isa::TESSERA_ISA {
namespace {

// kRows x two vectors of sums, two vectors of B and one element of A fill the registers.
#if defined(__AVX512F__)
constexpr int kVector = 16, kRows = 12;
#elif defined(__AVX2__)
constexpr int kVector = 8, kRows = 6;
#else
constexpr int kVector = 4, kRows = 6;
#endif
constexpr int kWidth = 2 * kVector;
static_assert(kPanelWidth % kWidth == 0);

typedef float Vector __attribute__((vector_size(4 * kVector)));

Vector load(const float* from) {
  Vector x;
  memcpy(&x, from, sizeof x);
  return x;
}
void store(float* to, Vector x) {
  memcpy(to, &x, sizeof x);
}

/// A tile of C [Rows, kWidth]. Element (r, p) of A lies at r * lda + p, or at p * lda + r.
template <int Rows, bool kTransposed>
void tile(int64_t k, float alpha, const float* a, int64_t lda, const float* b, float* c,
          int64_t ldc, bool accumulate) {
  Vector sum[Rows][2];
  for (int r = 0; r < Rows; ++r) sum[r][0] = sum[r][1] = Vector{};
  for (int64_t p = 0; p < k; ++p) {
    const Vector b0 = load(b), b1 = load(b + kVector);
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r) {
      const Vector x = (kTransposed ? a[r] : a[r * lda]) - Vector{};
      sum[r][0] += x * b0;
      sum[r][1] += x * b1;
    }
    a += kTransposed ? lda : 1;
    b += kWidth;
  }
  for (int r = 0; r < Rows; ++r) {
    float* row = c + r * ldc;
    for (int v = 0; v < 2; ++v) {
      const Vector old = accumulate ? load(row + v * kVector) : Vector{};
      store(row + v * kVector, old + alpha * sum[r][v]);
    }
  }
}

/// A tile of fewer rows: 1 .. Rows of them.
template <int Rows, bool kTransposed>
void tile_of(int64_t rows, int64_t k, float alpha, const float* a, int64_t lda, const float* b,
             float* c, int64_t ldc, bool accumulate) {
  if (rows == Rows) {
    tile<Rows, kTransposed>(k, alpha, a, lda, b, c, ldc, accumulate);
  } else if constexpr (Rows > 1) {
    tile_of<Rows - 1, kTransposed>(rows, k, alpha, a, lda, b, c, ldc, accumulate);
  }
}

/// The last columns, fewer than a panel has.
template <bool kTransposed>
void narrow_tile(int64_t rows, int64_t columns, int64_t k, float alpha, const float* a, int64_t lda,
                 const float* b, float* c, int64_t ldc, bool accumulate) {
  float whole[kRows * kWidth];
  tile_of<kRows, kTransposed>(rows, k, alpha, a, lda, b, whole, kWidth, false);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t j = 0; j < columns; ++j) {
      c[r * ldc + j] = (accumulate ? c[r * ldc + j] : 0.0f) + whole[r * kWidth + j];
    }
  }
}

template <bool kTransposed>
void multiply(int64_t m, int64_t n, int64_t k, float alpha, const float* a, int64_t lda,
              const float* panels, int64_t panel_size, float* c, int64_t ldc, bool accumulate) {
  for (int64_t j = 0; j < n; j += kWidth, panels += panel_size) {
    for (int64_t i = 0; i < m; i += kRows) {
      const int64_t rows = m - i < kRows ? m - i : kRows;
      const float* rows_of_a = a + (kTransposed ? i : i * lda);
      float* to = c + i * ldc + j;
      if (n - j < kWidth) {
        narrow_tile<kTransposed>(rows, n - j, k, alpha, rows_of_a, lda, panels, to, ldc,
                                 accumulate);
      } else {
        tile_of<kRows, kTransposed>(rows, k, alpha, rows_of_a, lda, panels, to, ldc, accumulate);
      }
    }
  }
}

/// A panel of `columns` columns of B, of which element (p, j) lies at p * row + j * column.
void pack_edge(float* panel, const float* b, int64_t row, int64_t column, int64_t columns,
               int64_t k) {
  for (int64_t p = 0; p < k; ++p) {
    for (int64_t j = 0; j < kWidth; ++j) {
      panel[p * kWidth + j] = j < columns ? b[p * row + j * column] : 0.0f;
    }
  }
}

void pack_whole(float* panel, const float* b, int64_t ld, int64_t k) {
  for (int64_t p = 0; p < k; ++p) memcpy(panel + p * kWidth, b + p * ld, kWidth * sizeof(float));
}

/// Reads short runs of each row and writes whole cache lines.
void pack_transposed(float* panel, const float* b, int64_t ld, int64_t k) {
  constexpr int64_t kRun = 8;
  int64_t p = 0;
  for (; p + kRun <= k; p += kRun) {
    for (int64_t q = 0; q < kRun; ++q) {
      for (int64_t j = 0; j < kWidth; ++j) panel[(p + q) * kWidth + j] = b[j * ld + p + q];
    }
  }
  for (; p < k; ++p) {
    for (int64_t j = 0; j < kWidth; ++j) panel[p * kWidth + j] = b[j * ld + p];
  }
}

}  // namespace

void pack_panels_f32(float* panels, const float* b, int64_t ld, bool transposed, int64_t n,
                     int64_t k) {
  for (int64_t j = 0; j < n; j += kWidth, panels += k * kWidth) {
    const float* from = b + (transposed ? j * ld : j);
    if (n - j < kWidth) {
      pack_edge(panels, from, transposed ? 1 : ld, transposed ? ld : 1, n - j, k);
    } else if (transposed) {
      pack_transposed(panels, from, ld, k);
    } else {
      pack_whole(panels, from, ld, k);
    }
  }
}

void multiply_panels_f32(int64_t m, int64_t n, int64_t k, float alpha, const float* a, int64_t lda,
                         bool transposed, const float* panels, int64_t rows, int64_t first_row,
                         int64_t first_column, float* c, int64_t ldc, bool accumulate) {
  const int64_t panel_size = rows * kWidth;
  const float* first = panels + first_column / kWidth * panel_size + first_row * kWidth;
  if (transposed) {
    multiply<true>(m, n, k, alpha, a, lda, first, panel_size, c, ldc, accumulate);
  } else {
    multiply<false>(m, n, k, alpha, a, lda, first, panel_size, c, ldc, accumulate);
  }
}

}  // namespace tessera::kernels::isa::TESSERA_ISA
