// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "tessera/device/exec.hpp"

namespace tessera::kernels {

/// C[i] = alpha op(A[i]) op(B[i]) + beta C[i] for i in [0, batch): row-major, op(A) m x k, op(B)
/// k x n, C m x n. `a` is stored k x m if transpose_a, and so on; lda, ldb, ldc are the distances
/// of stored rows, stride_* those of the batch's matrices, all in elements. With beta = 0, C need
/// not hold numbers; an empty k leaves beta C; an empty m or n does nothing.
template <class T>
struct Gemm {
  bool transpose_a = false;
  bool transpose_b = false;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  T alpha = 1;
  const T* a = nullptr;
  std::int64_t lda = 0;
  const T* b = nullptr;
  std::int64_t ldb = 0;
  T beta = 0;
  T* c = nullptr;
  std::int64_t ldc = 0;
  std::int64_t batch = 1;
  std::int64_t stride_a = 0;
  std::int64_t stride_b = 0;
  std::int64_t stride_c = 0;
};

/// OpenBLAS on the host (extents beyond 32 bits are split), cuBLAS on the instance's stream, else
/// Kokkos.
void gemm(const device::Exec& exec, const Gemm<float>& product);
void gemm(const device::Exec& exec, const Gemm<double>& product);

}  // namespace tessera::kernels
