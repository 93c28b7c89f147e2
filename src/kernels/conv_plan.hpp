// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <stdint.h>

/// Operands of the convolution kernels: plain data for the host and the portable variant alike.
namespace tessera::kernels {

inline constexpr int kSpace = 3;

/// x [batch, x…, groups, in], filter [taps…, groups, in, out], y [batch, y…, groups, out]: three
/// dims of space, the first of extent 1 if a convolution has fewer. Output i and tap j meet input
/// i * stride + j * dilation + base; what lies outside x is zero.
struct ConvPlan {
  int64_t batch;
  int64_t groups;
  int64_t in;
  int64_t out;
  int64_t x[kSpace];
  int64_t y[kSpace];
  int64_t taps[kSpace];
  int64_t stride[kSpace];
  int64_t dilation[kSpace];
  int64_t base[kSpace];  ///< may be negative: padding
  int element;           ///< of the two inputs: see pointwise_plan.hpp
  int result_element;
  const void* a;  ///< x, or y's gradient for the gradient of the input
  const void* b;  ///< the filter, or y's gradient for the gradient of the filter
  void* result;
};

}  // namespace tessera::kernels
