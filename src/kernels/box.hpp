// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>

#include "tessera/base/bf16.hpp"
#include "tessera/base/dtype.hpp"
#include "tessera/device/exec.hpp"
#include "tessera/kernels/kernel.hpp"

namespace tessera::kernels {

/// A box to copy: extents above 1 only, neighbouring dims merged where both sides allow it. Strides
/// in elements. Rank at least 1.
struct CopyBox {
  int rank = 0;
  std::int64_t extent[kMaxRank] = {};
  std::int64_t to_stride[kMaxRank] = {};
  std::int64_t from_stride[kMaxRank] = {};

  std::int64_t size() const {
    std::int64_t n = 1;
    for (int d = 0; d < rank; ++d) n *= extent[d];
    return n;
  }
};

/// Strides of a dense tile.
inline void row_major(const Tile& tile, std::int64_t (&strides)[kMaxRank]) {
  std::int64_t stride = 1;
  for (int d = tile.rank - 1; d >= 0; --d) {
    strides[d] = stride;
    stride *= tile.extent[d];
  }
}

CopyBox merge_box(int rank, const std::int64_t* extents, const std::int64_t* to_strides,
                  const std::int64_t* from_strides);

/// a + b as an element of its type.
template <class T>
TESSERA_FUNCTION T sum_of(T a, T b) {
  return a + b;
}
TESSERA_FUNCTION Bf16 sum_of(Bf16 a, Bf16 b) {
  return to_bf16(to_float(a) + to_float(b));
}

void copy_box_portable(const device::Exec& exec, void* to, const void* from, const CopyBox& box,
                       std::size_t element_bytes);
void add_box_portable(const device::Exec& exec, void* to, const void* from, const CopyBox& box,
                      DType dtype);
/// `bits`: an element of 2, 4 or 8 bytes.
void fill_box_portable(const device::Exec& exec, void* to, const CopyBox& box, std::uint64_t bits,
                       std::size_t element_bytes);
void set_zero_portable(const device::Exec& exec, void* to, std::size_t bytes);

}  // namespace tessera::kernels
