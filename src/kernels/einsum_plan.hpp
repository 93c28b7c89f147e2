// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "tessera/kernels/kernel.hpp"

namespace tessera::kernels {

/// A loop over one index: its extent and what it adds to the places in A, B and C (elements).
struct EinsumLoop {
  std::int64_t extent = 1;
  std::int64_t a = 0;
  std::int64_t b = 0;
  std::int64_t c = 0;
};

struct EinsumLoops {
  int count = 0;
  EinsumLoop loop[2 * kMaxRank];

  void add(const EinsumLoop& one) { loop[count++] = one; }
  std::int64_t size() const {
    std::int64_t n = 1;
    for (int i = 0; i < count; ++i) n *= loop[i].extent;
    return n;
  }
};

/// A matrix of the innermost product as it lies in memory: `ld` between stored rows.
struct EinsumMatrix {
  bool transpose = false;
  std::int64_t ld = 1;
};

/// C (+)= alpha sum of A B as loops around one matrix product, or as loops alone.
struct EinsumPlan {
  bool empty = false;     ///< C has no elements
  bool swapped = false;   ///< A and B have changed places, so that C's rows are contiguous
  bool has_gemm = false;  ///< else `outer` and `sums` are all loops there are
  EinsumLoop m, n, k;     ///< of the product
  EinsumMatrix a, b, c;
  EinsumLoops outer;  ///< over elements of C, longest distance first
  EinsumLoops sums;   ///< over what is summed, beside k
};

/// Plans the call's product from its labels and tiles; Error that names what does not fit.
EinsumPlan plan_einsum(const Call& call);

}  // namespace tessera::kernels
