// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <stdint.h>

#include "kernels/isa/isa.hpp"

namespace tessera::kernels {

/// x is [outer, length, inner, size]; the pairs (i, i + size / 2) turn by an angle that the
/// position and i give.
struct RotaryPlan {
  int element;  ///< see pointwise_plan.hpp
  const void* x;
  void* y;
  int64_t outer;
  int64_t length;
  int64_t inner;
  int64_t size;
  int64_t first;            ///< position of the first element along length
  double sign;              ///< -1: turns back
  const double* frequency;  ///< host: [size / 2]
  void* turn;               ///< host: compute type [2, size / 2], for cosines and sines
  double base;
};

}  // namespace tessera::kernels

TESSERA_ISA_DECLARE(void, rotary, (const tessera::kernels::RotaryPlan& plan))
