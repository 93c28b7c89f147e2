// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/box.hpp"
#include "tessera/device/kokkos.hpp"

namespace tessera::kernels {
namespace {

/// One index per unit: an element, or a byte where elements have an odd size.
template <class Unit>
void copy_units(const device::Exec& exec, Unit* to, const Unit* from, const CopyBox& box,
                std::int64_t units) {
  device::for_each_index(
      "tessera::kernels::copy_box", exec, box.size() * units, KOKKOS_LAMBDA(std::int64_t index) {
        std::int64_t rest = index / units;
        std::int64_t to_at = 0;
        std::int64_t from_at = 0;
        for (int d = box.rank - 1; d >= 0; --d) {
          const std::int64_t i = rest % box.extent[d];
          rest /= box.extent[d];
          to_at += i * box.to_stride[d];
          from_at += i * box.from_stride[d];
        }
        to[to_at * units + index % units] = from[from_at * units + index % units];
      });
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

void set_zero_portable(const device::Exec& exec, void* to, std::size_t bytes) {
  auto* out = static_cast<unsigned char*>(to);
  device::for_each_index(
      "tessera::kernels::set_zero", exec, static_cast<std::int64_t>(bytes),
      KOKKOS_LAMBDA(std::int64_t i) { out[i] = 0; });
}

}  // namespace tessera::kernels
