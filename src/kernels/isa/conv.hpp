// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <stdint.h>

#include "kernels/isa/isa.hpp"

// Products whose left factor lies scattered: rows at any places, and along each row runs of
// neighbours, the same for all rows. All that convolutions compute comes down to it.
namespace tessera::kernels::isa {

/// Widest panel of any level, of f32 or f64.
constexpr int64_t kConvPanelWidth = 32;
/// Longest run, and about as much depth as is treated at a time: a panel's part stays in L1.
constexpr int64_t kRunLimit = 256;

/// c[c_row[r] + j] (+)= sum over runs s and q < length[s] of a[a_row[r] + at[s] + q] B[p, j], where
/// p counts all (s, q) in order.
template <class T>
struct ScatteredProduct {
  int64_t rows;
  int64_t columns;
  int64_t runs;
  const int64_t* a_row;
  const int64_t* c_row;
  const int64_t* at;
  const int64_t* length;  ///< at most kRunLimit
  const T* a;
  const T* panels;  ///< B, packed with `depth` rows
  int64_t depth;
  T* c;
  bool accumulate;
};

/// Rows [first, first + rows) of B in panels of `depth` rows: B[first + p, j] = b[p * row + j *
/// column] for j < columns.
struct ConvPack {
  void* panels;
  int64_t depth;
  int64_t first;
  const void* b;
  int element;  ///< of b; panels are f64 for f64, else f32
  int64_t row;
  int64_t column;
  int64_t rows;
  int64_t columns;
};

/// to[j * to_stride + p] = from[p * from_stride + j] for p < rows, j < columns; f64 for f64, else
/// f32.
struct ConvTurn {
  void* to;
  int64_t to_stride;
  const void* from;
  int64_t from_stride;
  int element;  ///< of from
  int64_t rows;
  int64_t columns;
};

}  // namespace tessera::kernels::isa

TESSERA_ISA_DECLARE(void, scattered_product_f32, (const isa::ScatteredProduct<float>& product))
TESSERA_ISA_DECLARE(void, scattered_product_f64, (const isa::ScatteredProduct<double>& product))
TESSERA_ISA_DECLARE(void, conv_pack, (const isa::ConvPack& pack))
TESSERA_ISA_DECLARE(void, conv_turn, (const isa::ConvTurn& turn))
