// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <stdint.h>

#include "kernels/isa/isa.hpp"

/// to[i] = from[i], widened exactly.
TESSERA_ISA_DECLARE(void, bf16_to_f32, (float* to, const uint16_t* from, int64_t n))
/// Rounded to nearest even; a NaN stays a (quiet) NaN.
TESSERA_ISA_DECLARE(void, f32_to_bf16, (uint16_t * to, const float* from, int64_t n))
/// to[i] += from[i].
TESSERA_ISA_DECLARE(void, bf16_add, (float* to, const uint16_t* from, int64_t n))
