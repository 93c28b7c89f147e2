// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <stdint.h>

/// Operands of the group norm kernels: plain data for the host levels and the portable variant.
namespace tessera::kernels {

/// x is [outer, before, kept, after]: statistics [outer, kept] are over `before` and `after`, scale
/// is [kept, after], a line. E is the elements' type, C the type in which they are
/// computed (float for bf16); null where an operand is absent.
struct GroupNormPlan {
  int element;  ///< of x, y, dy, dx: see pointwise_plan.hpp
  int64_t outer;
  int64_t before;
  int64_t kept;
  int64_t after;
  int64_t masked;  ///< entries of `row_weights` for each index of outer; divides before
  double whole;    ///< elements of a group over all ranks, where all count
  double epsilon;
  const void* x;
  const void* dy;
  void* y;            ///< dx
  const void* scale;  ///< [line]; on the host C
  int scale_element;
  void* mean;                ///< C [outer, kept]
  void* variance;            ///< C [outer, kept]
  void* count;               ///< C [outer, kept], with row weights: elements of a group that count
  void* moments;             ///< C [outer, kept, 3]
  const float* row_weights;  ///< [outer, masked]: where 0, before / masked rows do not count
  void* sums;                ///< C [outer, kept, 2]
  void* dscale;              ///< C [line]
  void* dbias;               ///< C [line]
  void* lines;               ///< host: C [4, line or kept]
  double* totals;            ///< host: [4, line or kept]

  constexpr int64_t line() const { return kept * after; }
};

}  // namespace tessera::kernels
