// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <stdint.h>

// Mathematical functions of one element for loops that the compiler vectorises. Those of float have
// no branches and no calls; their largest errors (tests/kernels/math_test.cpp measures them) are
// given in ulp of the result. Those of double are the C library's. The polynomials are least
// maximum relative error fits made for this file.
namespace tessera::kernels::isa::TESSERA_ISA {

#define TESSERA_LANE static inline __attribute__((always_inline))

TESSERA_LANE float from_bits(uint32_t bits) {
  return __builtin_bit_cast(float, bits);
}
TESSERA_LANE uint32_t to_bits(float x) {
  return __builtin_bit_cast(uint32_t, x);
}

/// Adding and subtracting it rounds to an integer, which then stands in the sum's low bits.
static const float kRounder = 12582912.0f;
static const float kInfinity = __builtin_inff();

/// e^r for |r| <= ln 2 / 2, times 2^n, n standing in the low bits of `rounded`. Sums of pairs
/// rather than Horner's rule: short chains keep the processor's units busy.
TESSERA_LANE float exp_scaled(float r, float rounded) {
  const float s = r * r;
  const float low = 0.5f + r * 1.6666667e-1f;
  const float middle = 4.1666457e-2f + r * 8.3333618e-3f;
  const float high = 1.3934497e-3f + r * 1.9858127e-4f;
  const float p = 1.0f + (r + s * (low + s * (middle + s * high)));
  return from_bits(to_bits(p) + (to_bits(rounded) << 23));
}

// ln 2 in two parts, the first with few digits so that its product with an integer is exact.
static const float kLn2High = 0.693359375f;
static const float kLn2Low = -2.12194440e-4f;

/// 1 ulp; results below 2^-126 become 0.
TESSERA_LANE float exp(float x) {
  const float rounded = x * 1.44269504f + kRounder;
  const float n = rounded - kRounder;
  float y = exp_scaled((x - n * kLn2High) - n * kLn2Low, rounded);
  y = x < -87.33f ? 0.0f : y;
  // A NaN comes through the sum.
  return x <= 88.722839f ? y : x + kInfinity;
}

/// 2 ulp; -inf at 0, NaN below, exact at 1; numbers below 2^-126 count as 0.
TESSERA_LANE float log(float x) {
  // Mantissa in [sqrt(1/2), sqrt(2)): the cut is where the bits of sqrt(1/2) roll over.
  const uint32_t shifted = to_bits(x) - 0x3F3504F3u;
  const float n = static_cast<float>(static_cast<int32_t>(shifted) >> 23);
  const float m = from_bits((shifted & 0x007FFFFFu) + 0x3F3504F3u) - 1.0f;
  float p = -1.1514556e-1f + m * 7.0375858e-2f;
  p = 1.1677010e-1f + m * p;
  p = -1.2420149e-1f + m * p;
  p = 1.4249323e-1f + m * p;
  p = -1.6668057e-1f + m * p;
  p = 2.0000715e-1f + m * p;
  p = -2.4999994e-1f + m * p;
  p = 3.3333331e-1f + m * p;
  const float s = m * m;
  float y = p * m * s + n * kLn2Low;
  y = y - 0.5f * s;
  y = m + y + n * kLn2High;
  y = x < 1.17549435e-38f ? -kInfinity : y;
  y = x < 0.0f ? __builtin_nanf("") : y;
  y = x == kInfinity ? kInfinity : y;
  return x != x ? x : y;
}

TESSERA_LANE float absolute(float x) {
  return from_bits(to_bits(x) & 0x7FFFFFFFu);
}
/// |size| with the sign of `sign`.
TESSERA_LANE float with_sign(float size, float sign) {
  return from_bits((to_bits(size) & 0x7FFFFFFFu) | (to_bits(sign) & 0x80000000u));
}

/// 3 ulp.
TESSERA_LANE float tanh(float x) {
  const float a = absolute(x);
  const float s = x * x;
  float p = 2.0590984e-2f + s * -5.6599848e-3f;
  p = -5.3721067e-2f + s * p;
  p = 1.3331128e-1f + s * p;
  p = -3.3333261e-1f + s * p;
  const float near = x + x * (s * p);
  const float far = 1.0f - 2.0f / (exp(2.0f * a) + 1.0f);
  return a < 0.625f ? near : with_sign(far, x);
}

/// 4 ulp, also where it is tiny.
TESSERA_LANE float sigmoid(float x) {
  return 1.0f / (1.0f + exp(-x));
}

/// erfc(z) e^(z^2) for z = factor * x in [0, 9.5]; relative error 4e-7.
TESSERA_LANE float scaled_erfc(float x, float factor) {
  const float t = 1.0f / (1.0f + 0.38f * factor * x);
  const float t2 = t * t;
  const float t4 = t2 * t2;
  const float p01 = 0.21440988f + t * 0.21393645f;
  const float p23 = 0.20379338f + t * 0.13906232f;
  const float p45 = 0.22911859f + t * -0.16022347f;
  const float p67 = 0.36283876f + t * -0.26181018f;
  const float low = p01 + t2 * p23;
  const float high = (p45 + t2 * p67) + t4 * 0.05887429f;
  return t * (low + t4 * high);
}

/// e^(-scale x^2) with the square's rounding made good; scale x^2 at most 87.33.
TESSERA_LANE float exp_minus_square(float x, float scale) {
#ifdef __FMA__
  const float square = x * x;
  const float rest = __builtin_fmaf(x, x, -square);
#else
  const float high = from_bits(to_bits(x) & 0xFFFFF000u);
  const float square = high * high;
  const float rest = (x - high) * (x + high);
#endif
  const float rounded = square * (-1.44269504f * scale) + kRounder;
  const float n = rounded - kRounder;
  const float r = (-scale * square - n * kLn2High) - (n * kLn2Low + scale * rest);
  return exp_scaled(r, rounded);
}

/// The smaller of two that are not negative; `most` for a NaN. Compares bits, because a comparison
/// of floats makes the compiler split what follows in two.
TESSERA_LANE float at_most(float most, float x) {
  const int32_t a = static_cast<int32_t>(to_bits(most));
  const int32_t b = static_cast<int32_t>(to_bits(x));
  return from_bits(static_cast<uint32_t>(a < b ? a : b));
}

/// 3 ulp.
TESSERA_LANE float erf(float x) {
  const float s = x * x;
  const float s2 = s * s;
  const float low = -3.7612634e-1f + s * 1.1283697e-1f;
  const float middle = -2.6859500e-2f + s * 5.2012860e-3f;
  const float high = -8.1455969e-4f + s * 8.3823880e-5f;
  const float p = low + s2 * (middle + s2 * high);
  // 2 / sqrt(pi) = 1.125 + 0.00337916...: the first product is nearly exact.
  const float near = x * 1.125f + x * (3.3791671e-3f + s * p);
  const float a = absolute(x);
  const float z = at_most(9.0f, a);
  const float far = 1.0f - scaled_erfc(z, 1.0f) * exp_minus_square(z, 1.0f);
  return a >= 0.92f ? with_sign(far, x) : near;
}

// Beyond this the standard normal's tail is below 1e-38.
static const float kTailEnd = 13.2f;

/// x Phi(x); the lower tail keeps its relative precision (1e-6) down to 1e-38.
TESSERA_LANE float gelu(float x) {
  const float a = absolute(x);
  const float z = at_most(kTailEnd, a);
  const float tail = 0.5f * exp_minus_square(z, 0.5f) * scaled_erfc(z, 0.70710678f);
  const float lost = a < kTailEnd ? a * tail : 0.0f;
  return (x < 0.0f ? 0.0f : x) - lost;
}

/// Phi(x) + x phi(x), where it is h for negative x it is 1 - h for -x.
TESSERA_LANE float gelu_derivative(float x) {
  const float a = absolute(x);
  const float z = at_most(kTailEnd, a);
  const float e = exp_minus_square(z, 0.5f);
  float h = e * (0.5f * scaled_erfc(z, 0.70710678f) - 0.39894228f * a);
  h = a > kTailEnd ? 0.0f : h;
  return x < 0.0f ? h : 1.0f - h;
}

/// Angle reduced and series summed in double, good for |x| < 2^30.
TESSERA_LANE float sine_quarter(float x, int quarter) {
  const double rounder = 6755399441055744.0;  // 1.5 * 2^52
  const double rounded = x * 0.63661977236758134 + rounder;
  const double n = rounded - rounder;
  const double r = (x - n * 1.5707963267948966) - n * 6.1232339957367660e-17;
  const double s = r * r;
  double sine = -1.9841269841269841e-4 + s * 2.7557319223985893e-6;
  sine = 8.3333333333333333e-3 + s * sine;
  sine = -1.6666666666666667e-1 + s * sine;
  sine = r + r * (s * sine);
  double cosine = 2.4801587301587302e-5 + s * -2.7557319223985888e-7;
  cosine = -1.3888888888888889e-3 + s * cosine;
  cosine = 4.1666666666666667e-2 + s * cosine;
  cosine = -0.5 + s * cosine;
  cosine = 1.0 + s * cosine;
  const uint64_t turn = __builtin_bit_cast(uint64_t, rounded) + static_cast<uint64_t>(quarter);
  const double value = (turn & 1) != 0 ? cosine : sine;
  return static_cast<float>((turn & 2) != 0 ? -value : value);
}

TESSERA_LANE double exp(double x) {
  return __builtin_exp(x);
}
TESSERA_LANE double log(double x) {
  return __builtin_log(x);
}
TESSERA_LANE double tanh(double x) {
  return __builtin_tanh(x);
}
TESSERA_LANE double erf(double x) {
  return __builtin_erf(x);
}
TESSERA_LANE double sigmoid(double x) {
  return 1.0 / (1.0 + __builtin_exp(-x));
}
TESSERA_LANE double absolute(double x) {
  return __builtin_fabs(x);
}
TESSERA_LANE double gelu(double x) {
  const double y = 0.5 * x * __builtin_erfc(-x * 0.70710678118654752);
  return x < -40.0 ? -0.0 : y;
}
TESSERA_LANE double gelu_derivative(double x) {
  const double density = 0.39894228040143268 * __builtin_exp(-0.5 * x * x);
  const double y = 0.5 * __builtin_erfc(-x * 0.70710678118654752) + x * density;
  return x < -40.0 ? -0.0 : y;
}

/// x sigmoid(x), and its derivative. Where the sigmoid is 0 or 1 the product is its limit.
template <class T>
TESSERA_LANE T silu(T x) {
  const T s = sigmoid(x);
  const T y = x * s;
  return s == T(0) ? -T(0) : y;
}
template <class T>
TESSERA_LANE T silu_derivative(T x) {
  const T s = sigmoid(x);
  const T y = s + x * s * (T(1) - s);
  return s == T(0) ? -T(0) : y;
}

/// x (1 + tanh u) / 2 = x sigmoid(2 u) with u = sqrt(2 / pi) (x + 0.044715 x^3).
template <class T>
TESSERA_LANE T gelu_tanh(T x) {
  const T s = sigmoid(T(1.5957691216057308) * x * (T(1) + T(0.044715) * x * x));
  const T y = x * s;
  return s == T(0) ? -T(0) : y;
}
template <class T>
TESSERA_LANE T gelu_tanh_derivative(T x) {
  const T s = sigmoid(T(1.5957691216057308) * x * (T(1) + T(0.044715) * x * x));
  const T slope = T(1.5957691216057308) * (T(1) + T(3 * 0.044715) * x * x);
  const T y = s + x * s * (T(1) - s) * slope;
  return s == T(0) ? -T(0) : y;
}

TESSERA_LANE float square_root(float x) {
  return __builtin_sqrtf(x);
}
TESSERA_LANE double square_root(double x) {
  return __builtin_sqrt(x);
}
TESSERA_LANE float power(float x, float y) {
  return __builtin_powf(x, y);
}
TESSERA_LANE double power(double x, double y) {
  return __builtin_pow(x, y);
}

}  // namespace tessera::kernels::isa::TESSERA_ISA
