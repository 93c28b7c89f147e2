// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <stdint.h>

#include "tessera/program/pointwise_code.hpp"

/// What a call of `pointwise` has to do, decoded and with merged dims: plain data that the host
/// levels and the portable variant read alike.
namespace tessera::kernels {

inline constexpr int kMaxPointRank = 8;
inline constexpr int kMaxPointInstructions = program::kMaxInstructions;
inline constexpr int kMaxPointConstants = program::kMaxConstants;

/// Element types as numbers (the order of tessera::DType).
inline constexpr int kElementF32 = 0;
inline constexpr int kElementF64 = 1;
inline constexpr int kElementBf16 = 2;
inline constexpr int kElementI32 = 3;

struct PointInstruction {
  uint8_t code;   ///< a program::PointOp
  uint8_t reads;  ///< how many of the registers a, b, c
  uint8_t to;
  uint8_t a;  ///< `constant`: the number of the constant
  uint8_t b;
  uint8_t c;

  constexpr program::PointOp op() const { return static_cast<program::PointOp>(code); }
};

struct PointInput {
  const void* data;
  int element;
  int64_t stride[kMaxPointRank];  ///< in elements, 0 where broadcast
};

struct PointOutput {
  void* data;
  int element;
  int reg;  ///< register that is stored
};

struct PointPlan {
  int rank;  ///< at least 1
  int64_t extent[kMaxPointRank];
  int64_t size;
  int inputs;
  int outputs;
  int instructions;
  PointInput input[program::kMaxInputs];
  PointOutput output[program::kMaxOutputs];
  PointInstruction code[kMaxPointInstructions];
  double constant[kMaxPointConstants];
};

}  // namespace tessera::kernels
