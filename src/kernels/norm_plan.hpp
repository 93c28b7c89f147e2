// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <stdint.h>

/// Operands of the norm kernels: plain data for the host levels and the portable variant alike.
namespace tessera::kernels {

/// x is [outer, size, inner] with the normalised axis in the middle; its rows, outer * inner of
/// them, are as many as the statistics have elements. E is the elements' type, C the type in which
/// they are computed (float for bf16); null where an operand is absent.
struct NormPlan {
  int element;  ///< of x, y, dy, dx: see pointwise_plan.hpp
  int64_t outer;
  int64_t size;  ///< of the local part of the axis
  int64_t inner;
  double whole;  ///< size of the whole axis
  double epsilon;
  bool rms;       ///< no mean
  const void* x;  ///< E
  void* y;        ///< E
  const void* dy;
  void* dx;
  const void* scale;  ///< [size]; on the host C
  const void* bias;   ///< [size]; on the host C
  int scale_element;
  int bias_element;
  void* mean;     ///< C [rows]
  void* rstd;     ///< C [rows]
  void* sums;     ///< C [rows, 2]
  void* moments;  ///< C [rows, 3]
  void* dscale;   ///< C [size]
  void* dbias;    ///< C [size]
  /// Host: C [2, size] and double [2, size] to add dscale and dbias in.
  void* chunk;
  double* total;
};

}  // namespace tessera::kernels
