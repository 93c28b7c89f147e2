// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <stdint.h>

/// Runs of a tile whose elements have consecutive indices in the whole tensor: plain data for the
/// host levels and the portable variant.
namespace tessera::kernels {

struct RandomPlan {
  uint64_t key;
  uint64_t step;
  int rank;  ///< dims that count runs
  int64_t extent[8];
  int64_t stride[8];  ///< in the whole tensor
  int64_t first;      ///< index of the tile's first element
  int64_t runs;       ///< product of the extents
  int64_t length;     ///< of a run
};

}  // namespace tessera::kernels
