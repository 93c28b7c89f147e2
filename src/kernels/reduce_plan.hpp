// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <stdint.h>

/// A call of `reduce`, decoded: plain data for the host levels and the portable variant alike.
namespace tessera::kernels {

inline constexpr int kReduceSum = 0;
inline constexpr int kReduceMax = 1;
inline constexpr int kReduceMin = 2;
inline constexpr int kReduceSumSquares = 3;

/// Loops with their strides in the input, in elements; extents above 1, neighbours merged.
struct ReduceLoops {
  int rank;
  int64_t extent[8];
  int64_t stride[8];
  int64_t size;  ///< product of the extents
};

struct ReducePlan {
  const void* input;
  void* output;
  int input_element;  ///< see pointwise_plan.hpp
  int output_element;
  int op;
  double alpha;
  ReduceLoops kept;     ///< the output's dims in its order; stride 0 where it broadcasts
  ReduceLoops reduced;  ///< by falling stride
};

}  // namespace tessera::kernels
