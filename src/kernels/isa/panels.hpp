// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <stdint.h>

#include "kernels/isa/isa.hpp"

// Products with a right factor that is packed once and used often, for blocks too small for BLAS to
// be at its best. Panels hold B [k, n] as [n / width][k][width], the last one filled up with zeros;
// the width depends on the level and is at most kPanelWidth.
namespace tessera::kernels::isa {
constexpr int64_t kPanelWidth = 32;
}

/// Packs B [k, n], which lies in memory as [k, n] or, if transposed, as [n, k], rows `ld` apart.
/// Needs k times n rounded up to kPanelWidth elements.
TESSERA_ISA_DECLARE(void, pack_panels_f32,
                    (float* panels, const float* b, int64_t ld, bool transposed, int64_t n,
                     int64_t k))

/// C [m, n] = alpha A B[first row on, first column on], added to C if `accumulate`, with A [m, k]
/// as it lies, or if transposed [k, m], rows `lda` apart. `rows` is the k that B was packed with;
/// first_column is a multiple of kPanelWidth.
TESSERA_ISA_DECLARE(void, multiply_panels_f32,
                    (int64_t m, int64_t n, int64_t k, float alpha, const float* a, int64_t lda,
                     bool transposed, const float* panels, int64_t rows, int64_t first_row,
                     int64_t first_column, float* c, int64_t ldc, bool accumulate))
