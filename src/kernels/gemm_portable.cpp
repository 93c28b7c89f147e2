// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/gemm_cublas.hpp"
#include "kernels/gemm_parts.hpp"
#include "tessera/device/kokkos.hpp"

namespace tessera::kernels {
namespace {

/// One index per element of C, its sum in order of k. The reference for instances without a BLAS.
template <class T>
void gemm_reference(const device::Exec& exec, const Gemm<T>& p) {
  const auto a_strides = matrix_strides(p.transpose_a, p.lda);
  const auto b_strides = matrix_strides(p.transpose_b, p.ldb);
  device::for_each_index(
      "tessera::kernels::gemm", exec, p.batch * p.m * p.n, KOKKOS_LAMBDA(std::int64_t index) {
        const std::int64_t j = index % p.n;
        const std::int64_t i = index / p.n % p.m;
        const std::int64_t item = index / p.n / p.m;
        const T* a = p.a + item * p.stride_a + i * a_strides.first;
        const T* b = p.b + item * p.stride_b + j * b_strides.second;
        T* c = p.c + item * p.stride_c + i * p.ldc + j;
        T sum = 0;
        for (std::int64_t l = 0; l < p.k; ++l) {
          sum += a[l * a_strides.second] * b[l * b_strides.first];
        }
        *c = p.beta == T(0) ? p.alpha * sum : p.alpha * sum + p.beta * *c;
      });
}

template <class T>
void run(const device::Exec& exec, const Gemm<T>& product) {
  if (product.k > 0 && gemm_cublas(exec, product)) return;
  gemm_reference(exec, product);
}

}  // namespace

void gemm_portable(const device::Exec& exec, const Gemm<float>& product) {
  run(exec, product);
}
void gemm_portable(const device::Exec& exec, const Gemm<double>& product) {
  run(exec, product);
}

}  // namespace tessera::kernels
