// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <stdint.h>

#include "kernels/isa/isa.hpp"

namespace tessera::kernels {

/// One run of elements with consecutive indices.
struct DropoutRun {
  const void* x;
  void* y;
  int64_t length;
  uint64_t first;  ///< index of the first element
  uint64_t key;
  uint64_t step;
  uint64_t threshold;  ///< words below it drop their element
  double scale;        ///< of what is kept
};

}  // namespace tessera::kernels

TESSERA_ISA_DECLARE(void, dropout_f32, (const tessera::kernels::DropoutRun& run))
TESSERA_ISA_DECLARE(void, dropout_f64, (const tessera::kernels::DropoutRun& run))
TESSERA_ISA_DECLARE(void, dropout_bf16, (const tessera::kernels::DropoutRun& run))
