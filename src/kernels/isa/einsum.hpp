// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <stdint.h>

#include "kernels/isa/isa.hpp"

// Products without a matrix in them. Strides in elements; 0 repeats one element.

/// c[i] = alpha a[i] b[i], added to c[i] if `accumulate`.
TESSERA_ISA_DECLARE(void, einsum_multiply_f32,
                    (float* c, int64_t sc, const float* a, int64_t sa, const float* b, int64_t sb,
                     int64_t n, float alpha, bool accumulate))
TESSERA_ISA_DECLARE(void, einsum_multiply_f64,
                    (double* c, int64_t sc, const double* a, int64_t sa, const double* b,
                     int64_t sb, int64_t n, double alpha, bool accumulate))
/// Sum of a[i] b[i], always added in the same order for one n.
TESSERA_ISA_DECLARE(float, einsum_dot_f32,
                    (const float* a, int64_t sa, const float* b, int64_t sb, int64_t n))
TESSERA_ISA_DECLARE(double, einsum_dot_f64,
                    (const double* a, int64_t sa, const double* b, int64_t sb, int64_t n))
