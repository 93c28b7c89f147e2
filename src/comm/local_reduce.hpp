// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "tessera/base/dtype.hpp"
#include "tessera/program/program.hpp"

namespace tessera::comm {

/// Error unless the dtype can be reduced: sums of bf16 are done in f32.
void check_reducible(DType dtype);

/// into[i] = op(into[i], from[i]) in host memory; f32, f64, i32. max and min of a NaN are NaN.
void combine(program::ReduceOp op, DType dtype, void* into, const void* from, std::int64_t count);

/// A pointer some elements further on.
inline void* advance(void* pointer, std::int64_t elements, DType dtype) {
  return static_cast<char*>(pointer) + elements * static_cast<std::int64_t>(bytes_of(dtype));
}
inline const void* advance(const void* pointer, std::int64_t elements, DType dtype) {
  return static_cast<const char*>(pointer) + elements * static_cast<std::int64_t>(bytes_of(dtype));
}
inline std::size_t bytes_for(std::int64_t elements, DType dtype) {
  return static_cast<std::size_t>(elements) * bytes_of(dtype);
}
/// memcpy that allows null pointers of nothing.
void copy_bytes(void* to, const void* from, std::size_t bytes);

}  // namespace tessera::comm
