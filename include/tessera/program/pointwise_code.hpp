// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace tessera::program {

/// Instructions of the `pointwise` kernel's register code. An instruction is five integers:
/// (op, destination, a, b, c), all registers but for `constant`, whose a is the number of the
/// attribute "c<a>" that holds the value. Registers 0 .. inputs-1 hold the inputs' elements. At
/// most kMaxInstructions of them, kMaxConstants constants, kMaxRegisters registers, kMaxInputs
/// inputs and kMaxOutputs outputs.
enum class PointOp : std::int64_t {
  constant,
  copy,
  add,
  subtract,
  multiply,
  divide,
  minimum,
  maximum,
  negate,
  absolute,
  square,
  sqrt,
  rsqrt,
  reciprocal,
  exp,
  log,
  sin,
  cos,
  tanh,
  erf,
  sigmoid,
  power,  ///< a^b
  relu,
  relu_derivative,  ///< 1 where a > 0, else 0
  gelu,             ///< a Phi(a), with erf
  gelu_derivative,  ///< d gelu / d a
  gelu_tanh,        ///< the tanh approximation
  gelu_tanh_derivative,
  silu,  ///< a sigmoid(a)
  silu_derivative,
  less,          ///< a < b ? 1 : 0
  equal,         ///< a == b ? 1 : 0
  select,        ///< a != 0 ? b : c
  multiply_add,  ///< a b + c
  is_finite,     ///< 1 if a is finite, else 0
  floor,         ///< largest integer that is not above a
};

inline constexpr int kMaxInstructions = 160;
inline constexpr int kMaxConstants = 64;
inline constexpr int kMaxRegisters = 48;
inline constexpr int kMaxInputs = 16;
inline constexpr int kMaxOutputs = 8;
inline constexpr int kInstructionLength = 5;

/// How many of the registers a, b, c an instruction reads.
constexpr int operand_count(PointOp op) {
  switch (op) {
    case PointOp::constant:
      return 0;
    case PointOp::add:
    case PointOp::subtract:
    case PointOp::multiply:
    case PointOp::divide:
    case PointOp::minimum:
    case PointOp::maximum:
    case PointOp::power:
    case PointOp::less:
    case PointOp::equal:
      return 2;
    case PointOp::select:
    case PointOp::multiply_add:
      return 3;
    default:
      return 1;
  }
}

}  // namespace tessera::program
