// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/isa/draws.hpp"

#include "kernels/isa/math.hpp"
#include "kernels/isa/random.hpp"

namespace tessera::kernels::isa::TESSERA_ISA {
namespace {

constexpr int64_t kMost = 512;
constexpr double kTwo52 = 4503599627370496.0;

TESSERA_LANE uint64_t bits_of(double x) {
  return __builtin_bit_cast(uint64_t, x);
}
TESSERA_LANE double of_bits(uint64_t bits) {
  return __builtin_bit_cast(double, bits);
}
/// A whole number below 2^52.
TESSERA_LANE double number_of(uint64_t n) {
  return of_bits(n | bits_of(kTwo52)) - kTwo52;
}

/// Uniform in (0, 1), as uniform_of in base/philox.hpp.
TESSERA_LANE double uniform(uint32_t word) {
  return (number_of(word >> 8) + 0.5) * (1.0 / 16777216.0);
}

/// Logarithm of a normal number: 2 atanh((m - 1) / (m + 1)) of the mantissa by its series, the
/// exponent times ln 2 in two parts; 1 ulp or so.
TESSERA_LANE double logarithm(double x) {
  const uint64_t root_half = 0x3FE6A09E667F3BCD;
  const uint64_t shifted = bits_of(x) - root_half + (uint64_t{1023} << 52);
  const double n = number_of(shifted >> 52) - 1023.0;
  const double m = of_bits((shifted & 0x000FFFFFFFFFFFFF) + root_half);
  const double s = (m - 1.0) / (m + 1.0);
  const double q = s * s;
  double p = 1.0 / 21 + q * (1.0 / 23);
  p = 1.0 / 19 + q * p;
  p = 1.0 / 17 + q * p;
  p = 1.0 / 15 + q * p;
  p = 1.0 / 13 + q * p;
  p = 1.0 / 11 + q * p;
  p = 1.0 / 9 + q * p;
  p = 1.0 / 7 + q * p;
  p = 1.0 / 5 + q * p;
  p = 1.0 / 3 + q * p;
  const double high = n * 0.69314718036912382;  // 32 bits, so that the product is exact
  return high + (2.0 * s + (2.0 * s * q * p + n * 1.9082149292705877e-10));
}

/// cos(2 pi u) for u in (0, 1) of 25 bits: the distance to the nearest quarter turn is exact.
TESSERA_LANE double turn_cosine(double u) {
  const double rounder = 6755399441055744.0;  // 1.5 * 2^52
  const double rounded = 4.0 * u + rounder;
  const double r = 6.283185307179586 * (u - 0.25 * (rounded - rounder));
  const double s = r * r;
  double sine = -7.6471637318198165e-13 + s * 2.8114572543455206e-15;
  sine = 1.6059043836821613e-10 + s * sine;
  sine = -2.5052108385441720e-8 + s * sine;
  sine = 2.7557319223985893e-6 + s * sine;
  sine = -1.9841269841269841e-4 + s * sine;
  sine = 8.3333333333333333e-3 + s * sine;
  sine = -1.6666666666666667e-1 + s * sine;
  sine = r + r * (s * sine);
  double cosine = -1.1470745597729725e-11 + s * 4.7794773323873853e-14;
  cosine = 2.0876756987868099e-9 + s * cosine;
  cosine = -2.7557319223985888e-7 + s * cosine;
  cosine = 2.4801587301587302e-5 + s * cosine;
  cosine = -1.3888888888888889e-3 + s * cosine;
  cosine = 4.1666666666666667e-2 + s * cosine;
  cosine = 1.0 + s * (-0.5 + s * cosine);
  const uint64_t quarter = bits_of(rounded);  // its low bits count quarter turns
  const double value = (quarter & 1) != 0 ? sine : cosine;
  return ((quarter + 1) & 2) != 0 ? -value : value;
}

}  // namespace

void normal_draws(double* y, int64_t n, uint64_t key, uint64_t first, double mean, double scale) {
  uint32_t words[4 * kMost];
  random_words(key, 0, 4 * first, 4 * n, words);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const double radius = __builtin_sqrt(-2.0 * logarithm(uniform(words[4 * i])));
    y[i] = mean + scale * (radius * turn_cosine(uniform(words[4 * i + 1])));
  }
}

void uniform_draws(double* y, int64_t n, uint64_t key, uint64_t first, double mean, double scale) {
  uint32_t words[4 * kMost];
  random_words(key, 0, 4 * first, 4 * n, words);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    y[i] = mean + scale * (2.0 * uniform(words[4 * i + 2]) - 1.0);
  }
}

}  // namespace tessera::kernels::isa::TESSERA_ISA
