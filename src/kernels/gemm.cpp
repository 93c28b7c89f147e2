// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/kernels/gemm.hpp"

#include <cstring>

#include "kernels/gemm_parts.hpp"
#include "tessera/base/error.hpp"
#include "tessera/kernels/variant.hpp"

namespace tessera::kernels {
namespace {

/// Largest extent and leading dim that go to BLAS, which computes some addresses in 32 bits.
constexpr std::int64_t kBlasLimit = std::int64_t{1} << 30;

template <class T>
void check(const Gemm<T>& p) {
  TESSERA_CHECK(p.m >= 0 && p.n >= 0 && p.k >= 0 && p.batch >= 0, "gemm of extents ", p.m, " x ",
                p.n, " x ", p.k, ", batch ", p.batch);
  TESSERA_CHECK(p.lda >= (p.transpose_a ? p.m : p.k) || p.m == 0 || p.k == 0, "gemm: lda is ",
                p.lda);
  TESSERA_CHECK(p.ldb >= (p.transpose_b ? p.k : p.n) || p.n == 0 || p.k == 0, "gemm: ldb is ",
                p.ldb);
  TESSERA_CHECK(p.ldc >= p.n, "gemm: ldc is ", p.ldc, ", below n = ", p.n);
}

template <class T>
void scale_host(const Gemm<T>& p) {
  for (std::int64_t i = 0; i < p.m; ++i) {
    T* row = p.c + i * p.ldc;
    if (p.beta == T(0)) {
      std::memset(row, 0, static_cast<std::size_t>(p.n) * sizeof(T));
    } else {
      for (std::int64_t j = 0; j < p.n; ++j) row[j] *= p.beta;
    }
  }
}

template <class T>
void run_host(const Gemm<T>& product) {
  Gemm<T> one = product;
  one.batch = 1;
  for (std::int64_t i = 0; i < product.batch; ++i) {
    if (product.k == 0) {
      scale_host(one);
    } else {
      split_gemm(one, kBlasLimit, [](const Gemm<T>& piece) { gemm_blas(piece); });
    }
    one.a += product.stride_a;
    one.b += product.stride_b;
    one.c += product.stride_c;
  }
}

template <class T>
void run(const device::Exec& exec, const Gemm<T>& product) {
  check(product);
  if (product.m == 0 || product.n == 0 || product.batch == 0) return;
  if (use_portable()) {
    gemm_portable(exec, product);
  } else {
    run_host(product);
  }
}

}  // namespace

void gemm(const device::Exec& exec, const Gemm<float>& product) {
  run(exec, product);
}
void gemm(const device::Exec& exec, const Gemm<double>& product) {
  run(exec, product);
}

}  // namespace tessera::kernels
