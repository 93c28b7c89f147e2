// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/kernels/copy_box.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "kernels/box.hpp"
#include "tessera/base/error.hpp"
#include "tessera/kernels/variant.hpp"

namespace tessera::kernels {
namespace {

template <class Element>
void copy_strided(char* to, const char* from, std::int64_t n, std::int64_t to_stride,
                  std::int64_t from_stride) {
  auto* out = reinterpret_cast<Element*>(to);
  const auto* in = reinterpret_cast<const Element*>(from);
  for (std::int64_t i = 0; i < n; ++i) out[i * to_stride] = in[i * from_stride];
}

void copy_run(char* to, const char* from, std::int64_t n, std::int64_t to_stride,
              std::int64_t from_stride, std::size_t bytes) {
  if (to_stride == 1 && from_stride == 1) {
    std::memcpy(to, from, static_cast<std::size_t>(n) * bytes);
    return;
  }
  switch (bytes) {
    case 2:
      return copy_strided<std::uint16_t>(to, from, n, to_stride, from_stride);
    case 4:
      return copy_strided<std::uint32_t>(to, from, n, to_stride, from_stride);
    case 8:
      return copy_strided<std::uint64_t>(to, from, n, to_stride, from_stride);
    default:
      for (std::int64_t i = 0; i < n; ++i) {
        const auto size = static_cast<std::int64_t>(bytes);
        std::memcpy(to + i * to_stride * size, from + i * from_stride * size, bytes);
      }
  }
}

void copy_host(char* to, const char* from, const CopyBox& box, int dim, std::size_t bytes) {
  const auto size = static_cast<std::int64_t>(bytes);
  if (dim == box.rank - 1) {
    copy_run(to, from, box.extent[dim], box.to_stride[dim], box.from_stride[dim], bytes);
    return;
  }
  for (std::int64_t i = 0; i < box.extent[dim]; ++i) {
    copy_host(to + i * box.to_stride[dim] * size, from + i * box.from_stride[dim] * size, box,
              dim + 1, bytes);
  }
}

template <class T>
void add_host(T* to, const T* from, const CopyBox& box, int dim) {
  const std::int64_t n = box.extent[dim], to_stride = box.to_stride[dim];
  const std::int64_t from_stride = box.from_stride[dim];
  if (dim < box.rank - 1) {
    for (std::int64_t i = 0; i < n; ++i)
      add_host(to + i * to_stride, from + i * from_stride, box, dim + 1);
  } else if (to_stride == 1 && from_stride == 1) {
    for (std::int64_t i = 0; i < n; ++i) to[i] = sum_of(to[i], from[i]);
  } else {
    for (std::int64_t i = 0; i < n; ++i)
      to[i * to_stride] = sum_of(to[i * to_stride], from[i * from_stride]);
  }
}

template <class T>
void add_as(void* to, const void* from, const CopyBox& box) {
  add_host(static_cast<T*>(to), static_cast<const T*>(from), box, 0);
}

template <class T>
void fill_host(T* to, T value, const CopyBox& box, int dim) {
  const std::int64_t n = box.extent[dim], stride = box.to_stride[dim];
  if (dim < box.rank - 1) {
    for (std::int64_t i = 0; i < n; ++i) fill_host(to + i * stride, value, box, dim + 1);
  } else {
    for (std::int64_t i = 0; i < n; ++i) to[i * stride] = value;
  }
}

bool is_empty(int rank, const std::int64_t* extents) {
  return std::any_of(extents, extents + rank, [](std::int64_t n) { return n < 1; });
}

/// The bits of one element, in the low part of the word.
std::uint64_t element_of(double value, DType dtype) {
  switch (dtype) {
    case DType::f64:
      return std::bit_cast<std::uint64_t>(value);
    case DType::f32:
      return std::bit_cast<std::uint32_t>(static_cast<float>(value));
    case DType::bf16:
      return to_bf16(static_cast<float>(value)).bits;
    case DType::i32:
      return std::bit_cast<std::uint32_t>(static_cast<std::int32_t>(value));
  }
  return 0;
}

}  // namespace

CopyBox merge_box(int rank, const std::int64_t* extents, const std::int64_t* to_strides,
                  const std::int64_t* from_strides) {
  TESSERA_CHECK(rank >= 0 && rank <= kMaxRank, "a box of rank ", rank);
  CopyBox box;
  for (int d = 0; d < rank; ++d) {
    if (extents[d] == 1) continue;
    const int last = box.rank - 1;
    if (last >= 0 && box.to_stride[last] == to_strides[d] * extents[d] &&
        box.from_stride[last] == from_strides[d] * extents[d]) {
      box.extent[last] *= extents[d];
      box.to_stride[last] = to_strides[d];
      box.from_stride[last] = from_strides[d];
      continue;
    }
    box.extent[box.rank] = extents[d];
    box.to_stride[box.rank] = to_strides[d];
    box.from_stride[box.rank] = from_strides[d];
    ++box.rank;
  }
  if (box.rank == 0) {
    box.rank = 1;
    box.extent[0] = box.to_stride[0] = box.from_stride[0] = 1;
  }
  return box;
}

void copy_box(const device::Exec& exec, void* to, const void* from, int rank,
              const std::int64_t* extents, const std::int64_t* to_strides,
              const std::int64_t* from_strides, std::size_t element_bytes) {
  if (is_empty(rank, extents)) return;
  const CopyBox box = merge_box(rank, extents, to_strides, from_strides);
  if (use_portable()) {
    copy_box_portable(exec, to, from, box, element_bytes);
  } else {
    copy_host(static_cast<char*>(to), static_cast<const char*>(from), box, 0, element_bytes);
  }
}

void add_box(const device::Exec& exec, void* to, const void* from, int rank,
             const std::int64_t* extents, const std::int64_t* to_strides,
             const std::int64_t* from_strides, DType dtype) {
  if (is_empty(rank, extents)) return;
  const CopyBox box = merge_box(rank, extents, to_strides, from_strides);
  if (use_portable()) return add_box_portable(exec, to, from, box, dtype);
  switch (dtype) {
    case DType::f64:
      return add_as<double>(to, from, box);
    case DType::f32:
      return add_as<float>(to, from, box);
    case DType::bf16:
      return add_as<Bf16>(to, from, box);
    case DType::i32:
      return add_as<std::int32_t>(to, from, box);
  }
}

void fill_box(const device::Exec& exec, void* to, int rank, const std::int64_t* extents,
              const std::int64_t* to_strides, DType dtype, double value) {
  if (is_empty(rank, extents)) return;
  const CopyBox box = merge_box(rank, extents, to_strides, to_strides);
  const std::uint64_t bits = element_of(value, dtype);
  if (use_portable()) return fill_box_portable(exec, to, box, bits, bytes_of(dtype));
  switch (bytes_of(dtype)) {
    case 2:
      return fill_host(static_cast<std::uint16_t*>(to), static_cast<std::uint16_t>(bits), box, 0);
    case 4:
      return fill_host(static_cast<std::uint32_t*>(to), static_cast<std::uint32_t>(bits), box, 0);
    default:
      return fill_host(static_cast<std::uint64_t*>(to), bits, box, 0);
  }
}

void set_zero(const device::Exec& exec, void* to, std::size_t bytes) {
  if (bytes == 0) return;
  if (use_portable()) {
    set_zero_portable(exec, to, bytes);
  } else {
    std::memset(to, 0, bytes);
  }
}

}  // namespace tessera::kernels
