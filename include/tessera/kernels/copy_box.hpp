// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>

#include "tessera/base/dtype.hpp"
#include "tessera/device/exec.hpp"

namespace tessera::kernels {

/// Copies a box of elements between two places in kernels' memory that do not overlap. Strides are
/// in elements, the last dim need not be contiguous; an extent of 0 copies nothing. Any rank up to
/// kMaxRank, 0 included (one element).
void copy_box(const device::Exec& exec, void* to, const void* from, int rank,
              const std::int64_t* extents, const std::int64_t* to_strides,
              const std::int64_t* from_strides, std::size_t element_bytes);

/// Adds a box of elements to another. Sums of bf16 are rounded once an addition.
void add_box(const device::Exec& exec, void* to, const void* from, int rank,
             const std::int64_t* extents, const std::int64_t* to_strides,
             const std::int64_t* from_strides, DType dtype);

/// Writes `value` to each element of a box.
void fill_box(const device::Exec& exec, void* to, int rank, const std::int64_t* extents,
              const std::int64_t* to_strides, DType dtype, double value);

/// Writes `bytes` zero bytes.
void set_zero(const device::Exec& exec, void* to, std::size_t bytes);

}  // namespace tessera::kernels
