// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

/// Element types of tensors. bf16 is the upper half of an IEEE f32, rounded to nearest even.
enum class DType : std::uint8_t { f32, f64, bf16, i32 };

/// Size of one element in bytes.
constexpr std::size_t bytes_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 8;
    case DType::bf16:
      return 2;
    default:
      return 4;
  }
}
constexpr bool is_floating(DType dtype) {
  return dtype != DType::i32;
}
/// dtype of statistics and losses over values of a dtype: f64 of f64, else f32.
constexpr DType statistics_dtype(DType dtype) {
  return dtype == DType::f64 ? DType::f64 : DType::f32;
}

/// "f32", "f64", "bf16" or "i32".
const char* name_of(DType dtype);
/// Inverse of name_of; UserError for any other text.
DType parse_dtype(std::string_view text);

}  // namespace tessera
