// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/box.hpp"
#include "tessera/device/kokkos.hpp"

namespace tessera::kernels {
namespace {

/// Where element `index` of a box is.
TESSERA_FUNCTION std::int64_t place_of(std::int64_t index, const CopyBox& box,
                                       const std::int64_t* strides) {
  std::int64_t at = 0;
  for (int d = box.rank - 1; d >= 0; --d) {
    at += index % box.extent[d] * strides[d];
    index /= box.extent[d];
  }
  return at;
}

/// One index per unit: an element, or a byte where elements have an odd size.
template <class Unit>
void copy_units(const device::Exec& exec, Unit* to, const Unit* from, const CopyBox& box,
                std::int64_t units) {
  device::for_each_index(
      "tessera::kernels::copy_box", exec, box.size() * units, KOKKOS_LAMBDA(std::int64_t index) {
        const std::int64_t to_at = place_of(index / units, box, box.to_stride);
        const std::int64_t from_at = place_of(index / units, box, box.from_stride);
        to[to_at * units + index % units] = from[from_at * units + index % units];
      });
}

template <class T>
void add_elements(const device::Exec& exec, T* to, const T* from, const CopyBox& box) {
  device::for_each_index(
      "tessera::kernels::add_box", exec, box.size(), KOKKOS_LAMBDA(std::int64_t index) {
        T& element = to[place_of(index, box, box.to_stride)];
        element = sum_of(element, from[place_of(index, box, box.from_stride)]);
      });
}

template <class Unit>
void fill_units(const device::Exec& exec, Unit* to, const CopyBox& box, Unit value) {
  device::for_each_index(
      "tessera::kernels::fill_box", exec, box.size(),
      KOKKOS_LAMBDA(std::int64_t index) { to[place_of(index, box, box.to_stride)] = value; });
}

}  // namespace

void copy_box_portable(const device::Exec& exec, void* to, const void* from, const CopyBox& box,
                       std::size_t element_bytes) {
  switch (element_bytes) {
    case 2:
      return copy_units(exec, static_cast<std::uint16_t*>(to),
                        static_cast<const std::uint16_t*>(from), box, 1);
    case 4:
      return copy_units(exec, static_cast<std::uint32_t*>(to),
                        static_cast<const std::uint32_t*>(from), box, 1);
    case 8:
      return copy_units(exec, static_cast<std::uint64_t*>(to),
                        static_cast<const std::uint64_t*>(from), box, 1);
    default:
      return copy_units(exec, static_cast<unsigned char*>(to),
                        static_cast<const unsigned char*>(from), box,
                        static_cast<std::int64_t>(element_bytes));
  }
}

void add_box_portable(const device::Exec& exec, void* to, const void* from, const CopyBox& box,
                      DType dtype) {
  switch (dtype) {
    case DType::f64:
      return add_elements(exec, static_cast<double*>(to), static_cast<const double*>(from), box);
    case DType::f32:
      return add_elements(exec, static_cast<float*>(to), static_cast<const float*>(from), box);
    case DType::bf16:
      return add_elements(exec, static_cast<Bf16*>(to), static_cast<const Bf16*>(from), box);
    case DType::i32:
      return add_elements(exec, static_cast<std::int32_t*>(to),
                          static_cast<const std::int32_t*>(from), box);
  }
}

void fill_box_portable(const device::Exec& exec, void* to, const CopyBox& box, std::uint64_t bits,
                       std::size_t element_bytes) {
  switch (element_bytes) {
    case 2:
      return fill_units(exec, static_cast<std::uint16_t*>(to), box,
                        static_cast<std::uint16_t>(bits));
    case 4:
      return fill_units(exec, static_cast<std::uint32_t*>(to), box,
                        static_cast<std::uint32_t>(bits));
    default:
      return fill_units(exec, static_cast<std::uint64_t*>(to), box, bits);
  }
}

void set_zero_portable(const device::Exec& exec, void* to, std::size_t bytes) {
  auto* out = static_cast<unsigned char*>(to);
  device::for_each_index(
      "tessera::kernels::set_zero", exec, static_cast<std::int64_t>(bytes),
      KOKKOS_LAMBDA(std::int64_t i) { out[i] = 0; });
}

}  // namespace tessera::kernels
