// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <stdint.h>

#include "kernels/isa/isa.hpp"

// y[i] = mean + scale * draw of element first + i, at most 512 of them. The compiler may not fuse
// multiplications and additions here, so the draws have the same bits on every level.
TESSERA_ISA_DECLARE(void, normal_draws,
                    (double* y, int64_t n, uint64_t key, uint64_t first, double mean, double scale))
TESSERA_ISA_DECLARE(void, uniform_draws,
                    (double* y, int64_t n, uint64_t key, uint64_t first, double mean, double scale))
