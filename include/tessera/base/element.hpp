// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "tessera/base/bf16.hpp"
#include "tessera/base/dtype.hpp"

namespace tessera {

/// Element `i` of data of a dtype, exactly.
TESSERA_FUNCTION double number_at(const void* data, DType dtype, std::int64_t i) {
  if (dtype == DType::f64) return static_cast<const double*>(data)[i];
  if (dtype == DType::bf16) return static_cast<double>(to_float(static_cast<const Bf16*>(data)[i]));
  if (dtype == DType::i32) return static_cast<const std::int32_t*>(data)[i];
  return static_cast<double>(static_cast<const float*>(data)[i]);
}

/// Writes element `i` of data of a floating dtype, rounded to it (bf16 by way of f32).
TESSERA_FUNCTION void set_number(void* data, DType dtype, std::int64_t i, double value) {
  if (dtype == DType::f64) {
    static_cast<double*>(data)[i] = value;
  } else if (dtype == DType::bf16) {
    static_cast<Bf16*>(data)[i] = to_bf16(static_cast<float>(value));
  } else {
    static_cast<float*>(data)[i] = static_cast<float>(value);
  }
}

}  // namespace tessera
