// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/gemm_parts.hpp"
#ifdef TESSERA_HAVE_ONEDNN
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>

#include "tessera/base/error.hpp"
#endif

// Declared here because the cblas.h that is found first may be another library's.
extern "C" {
void cblas_sgemm(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha,
                 const float* a, int lda, const float* b, int ldb, float beta, float* c, int ldc);
void cblas_dgemm(int order, int transpose_a, int transpose_b, int m, int n, int k, double alpha,
                 const double* a, int lda, const double* b, int ldb, double beta, double* c,
                 int ldc);
void cblas_sgemv(int order, int transpose, int m, int n, float alpha, const float* a, int lda,
                 const float* x, int incx, float beta, float* y, int incy);
void cblas_dgemv(int order, int transpose, int m, int n, double alpha, const double* a, int lda,
                 const double* x, int incx, double beta, double* y, int incy);
}

namespace tessera::kernels {
namespace {

constexpr int kRowMajor = 101;
constexpr int kAsStored = 111;
constexpr int kTransposed = 112;

int flag(bool transpose) {
  return transpose ? kTransposed : kAsStored;
}
int narrow(std::int64_t extent) {
  return static_cast<int>(extent);
}

template <class T, class MatrixProduct, class VectorProduct>
void run(const Gemm<T>& p, MatrixProduct matrix_product, VectorProduct vector_product) {
  const int lda = narrow(p.lda), ldb = narrow(p.ldb), ldc = narrow(p.ldc);
  if (p.n == 1) {
    // The column of op(B) is a column of b as stored, or a row of it.
    const int rows = narrow(p.transpose_a ? p.k : p.m), columns = narrow(p.transpose_a ? p.m : p.k);
    vector_product(kRowMajor, flag(p.transpose_a), rows, columns, p.alpha, p.a, lda, p.b,
                   p.transpose_b ? 1 : ldb, p.beta, p.c, ldc);
  } else if (p.m == 1) {
    const int rows = narrow(p.transpose_b ? p.n : p.k), columns = narrow(p.transpose_b ? p.k : p.n);
    vector_product(kRowMajor, flag(!p.transpose_b), rows, columns, p.alpha, p.b, ldb, p.a,
                   p.transpose_a ? lda : 1, p.beta, p.c, 1);
  } else {
    matrix_product(kRowMajor, flag(p.transpose_a), flag(p.transpose_b), narrow(p.m), narrow(p.n),
                   narrow(p.k), p.alpha, p.a, lda, p.b, ldb, p.beta, p.c, ldc);
  }
}

#ifdef TESSERA_HAVE_ONEDNN
/// oneDNN's row-major sgemm under cblas' signature. One thread, like BLAS: a rank is a core.
void f32_product(int, int transpose_a, int transpose_b, int m, int n, int k, float alpha,
                 const float* a, int lda, const float* b, int ldb, float beta, float* c, int ldc) {
  static const bool one_thread = (omp_set_num_threads(1), true);
  const auto letter = [](int transpose) { return transpose == kTransposed ? 'T' : 'N'; };
  const dnnl_status_t status = dnnl_sgemm(letter(transpose_a), letter(transpose_b), m, n, k, alpha,
                                          a, lda, b, ldb, beta, c, ldc);
  TESSERA_CHECK(one_thread && status == dnnl_success, "dnnl_sgemm returned ", status);
}
#else
constexpr auto f32_product = cblas_sgemm;
#endif

}  // namespace

void gemm_blas(const Gemm<float>& product) {
  run(product, f32_product, cblas_sgemv);
}
void gemm_blas(const Gemm<double>& product) {
  run(product, cblas_dgemm, cblas_dgemv);
}

}  // namespace tessera::kernels
