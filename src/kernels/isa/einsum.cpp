// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/isa/einsum.hpp"

namespace tessera::kernels::isa::TESSERA_ISA {
namespace {

/// Partial sums side by side: as many as fill the vector registers that hide the latency of adding.
constexpr int kLanes = 32;

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

template <class T>
T add_lanes(T* lane) {
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int j = 0; j < width; ++j) lane[j] += lane[j + width];
  }
  return lane[0];
}

/// Strides of 1 that are known when compiled, so that the loop is vectorised.
template <class T>
T dot_dense(const T* a, const T* b, int64_t n) {
  T lane[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int j = 0; j < kLanes; ++j) lane[j] += a[i + j] * b[i + j];
  }
  for (int j = 0; i < n; ++i, ++j) lane[j] += a[i] * b[i];
  return add_lanes(lane);
}

template <class T>
T sum_dense(const T* a, int64_t n) {
  T lane[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int j = 0; j < kLanes; ++j) lane[j] += a[i + j];
  }
  for (int j = 0; i < n; ++i, ++j) lane[j] += a[i];
  return add_lanes(lane);
}

template <class T>
T dot(const T* a, int64_t sa, const T* b, int64_t sb, int64_t n) {
  if (n < 1) return 0;
  if (sa == 1 && sb == 1) return dot_dense(a, b, n);
  if (sa == 1 && sb == 0) return sum_dense(a, n) * b[0];
  if (sa == 0 && sb == 1) return sum_dense(b, n) * a[0];
  T lane[kLanes] = {};
  for (int64_t i = 0; i < n; ++i) lane[i % kLanes] += a[i * sa] * b[i * sb];
  return add_lanes(lane);
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
