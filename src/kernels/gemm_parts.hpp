// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdint>

#include "tessera/kernels/gemm.hpp"

namespace tessera::kernels {

/// Element (row, column) of op(X) lies at row * first + column * second.
struct MatrixStrides {
  std::int64_t first;
  std::int64_t second;
};
inline MatrixStrides matrix_strides(bool transpose, std::int64_t ld) {
  return transpose ? MatrixStrides{1, ld} : MatrixStrides{ld, 1};
}

/// Calls run(piece) for pieces of one product whose extents are at most `limit` and whose leading
/// dims are below it: BLAS counts in 32 bits. A leading dim beyond it is met one stored row at a
/// time.
template <class T, class Run>
void split_gemm(const Gemm<T>& whole, std::int64_t limit, const Run& run) {
  const auto a = matrix_strides(whole.transpose_a, whole.lda);
  const auto b = matrix_strides(whole.transpose_b, whole.ldb);
  // The step of each extent; 1 where a stored row has to stand alone.
  std::int64_t step_m = std::min(whole.m, limit);
  std::int64_t step_n = std::min(whole.n, limit);
  std::int64_t step_k = std::min(whole.k, limit);
  if (whole.lda > limit) (whole.transpose_a ? step_k : step_m) = 1;
  if (whole.ldb > limit) (whole.transpose_b ? step_n : step_k) = 1;
  if (whole.ldc > limit) step_m = 1;
  for (std::int64_t i = 0; i < whole.m; i += step_m) {
    for (std::int64_t j = 0; j < whole.n; j += step_n) {
      for (std::int64_t p = 0; p < whole.k; p += step_k) {
        Gemm<T> piece = whole;
        piece.m = std::min(step_m, whole.m - i);
        piece.n = std::min(step_n, whole.n - j);
        piece.k = std::min(step_k, whole.k - p);
        piece.a += i * a.first + p * a.second;
        piece.b += p * b.first + j * b.second;
        piece.c += i * whole.ldc + j;
        // One stored row has no distance to a next one.
        if (whole.lda > limit) piece.lda = whole.transpose_a ? piece.m : piece.k;
        if (whole.ldb > limit) piece.ldb = whole.transpose_b ? piece.k : piece.n;
        if (whole.ldc > limit) piece.ldc = piece.n;
        if (p > 0) piece.beta = 1;
        run(piece);
      }
    }
  }
}

/// One product of nonempty matrices whose extents fit into 32 bits.
void gemm_blas(const Gemm<float>& product);
void gemm_blas(const Gemm<double>& product);

/// Any product, on the instance: cuBLAS or Kokkos.
void gemm_portable(const device::Exec& exec, const Gemm<float>& product);
void gemm_portable(const device::Exec& exec, const Gemm<double>& product);

}  // namespace tessera::kernels
