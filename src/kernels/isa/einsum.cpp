// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/isa/einsum.hpp"

namespace tessera::kernels::isa::TESSERA_ISA {
namespace {

template <class T, bool kAdd>
void multiply(T* c, int64_t sc, const T* a, int64_t sa, const T* b, int64_t sb, int64_t n,
              T alpha) {
  if (sc == 1 && sa == 1 && sb == 1) {
    for (int64_t i = 0; i < n; ++i) c[i] = (kAdd ? c[i] : T(0)) + alpha * a[i] * b[i];
  } else if (sc == 1 && sa == 1 && sb == 0) {
    const T factor = alpha * b[0];
    for (int64_t i = 0; i < n; ++i) c[i] = (kAdd ? c[i] : T(0)) + factor * a[i];
  } else if (sc == 1 && sa == 0 && sb == 1) {
    const T factor = alpha * a[0];
    for (int64_t i = 0; i < n; ++i) c[i] = (kAdd ? c[i] : T(0)) + factor * b[i];
  } else {
    for (int64_t i = 0; i < n; ++i) {
      c[i * sc] = (kAdd ? c[i * sc] : T(0)) + alpha * a[i * sa] * b[i * sb];
    }
  }
}

// Four sums of a quarter each, every one in vectors: enough to hide the latency of adding.
template <class T>
T dot_dense(const T* a, const T* b, int64_t n) {
  const int64_t quarter = n / 4;
  const T *a1 = a + quarter, *a2 = a1 + quarter, *a3 = a2 + quarter;
  const T *b1 = b + quarter, *b2 = b1 + quarter, *b3 = b2 + quarter;
  T s0 = 0, s1 = 0, s2 = 0, s3 = 0;
#pragma omp simd reduction(+ : s0, s1, s2, s3)
  for (int64_t i = 0; i < quarter; ++i) {
    s0 += a[i] * b[i];
    s1 += a1[i] * b1[i];
    s2 += a2[i] * b2[i];
    s3 += a3[i] * b3[i];
  }
  for (int64_t i = 4 * quarter; i < n; ++i) s0 += a[i] * b[i];
  return (s0 + s1) + (s2 + s3);
}

template <class T>
T sum_dense(const T* a, int64_t n) {
  const int64_t quarter = n / 4;
  const T *a1 = a + quarter, *a2 = a1 + quarter, *a3 = a2 + quarter;
  T s0 = 0, s1 = 0, s2 = 0, s3 = 0;
#pragma omp simd reduction(+ : s0, s1, s2, s3)
  for (int64_t i = 0; i < quarter; ++i) {
    s0 += a[i];
    s1 += a1[i];
    s2 += a2[i];
    s3 += a3[i];
  }
  for (int64_t i = 4 * quarter; i < n; ++i) s0 += a[i];
  return (s0 + s1) + (s2 + s3);
}

template <class T>
T dot(const T* a, int64_t sa, const T* b, int64_t sb, int64_t n) {
  if (n < 1) return 0;
  if (sa == 1 && sb == 1) return dot_dense(a, b, n);
  if (sa == 1 && sb == 0) return sum_dense(a, n) * b[0];
  if (sa == 0 && sb == 1) return sum_dense(b, n) * a[0];
  T part[4] = {};
  for (int64_t i = 0; i < n; ++i) part[i % 4] += a[i * sa] * b[i * sb];
  return (part[0] + part[1]) + (part[2] + part[3]);
}

}  // namespace

void einsum_multiply_f32(float* c, int64_t sc, const float* a, int64_t sa, const float* b,
                         int64_t sb, int64_t n, float alpha, bool accumulate) {
  if (accumulate) {
    multiply<float, true>(c, sc, a, sa, b, sb, n, alpha);
  } else {
    multiply<float, false>(c, sc, a, sa, b, sb, n, alpha);
  }
}

void einsum_multiply_f64(double* c, int64_t sc, const double* a, int64_t sa, const double* b,
                         int64_t sb, int64_t n, double alpha, bool accumulate) {
  if (accumulate) {
    multiply<double, true>(c, sc, a, sa, b, sb, n, alpha);
  } else {
    multiply<double, false>(c, sc, a, sa, b, sb, n, alpha);
  }
}

float einsum_dot_f32(const float* a, int64_t sa, const float* b, int64_t sb, int64_t n) {
  return dot(a, sa, b, sb, n);
}

double einsum_dot_f64(const double* a, int64_t sa, const double* b, int64_t sb, int64_t n) {
  return dot(a, sa, b, sb, n);
}

}  // namespace tessera::kernels::isa::TESSERA_ISA
