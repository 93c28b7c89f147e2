// SPDX-License-Identifier: BSD-3-Clause
#include <sys/mman.h>

#include <cstdlib>
#include <utility>

#include "tessera/base/error.hpp"
#include "tessera/device/kokkos.hpp"

namespace tessera::device {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

/// Big blocks lie on huge pages where the system grants them: fewer TLB misses in matrix products.
void* allocate_host(std::size_t bytes) {
  const bool huge = bytes >= 2 * kHugePage;
  const std::size_t alignment = huge ? kHugePage : kAlignment;
  void* data = std::aligned_alloc(alignment, round_up(bytes, alignment));
#ifdef MADV_HUGEPAGE
  // Only whole huge pages: the rest would cost resident memory that nobody asked for.
  if (huge && data != nullptr) madvise(data, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
#endif
  return data;
}

}  // namespace

Memory::Memory(std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  data_ = kHostMemory ? allocate_host(bytes)
                      : Kokkos::kokkos_malloc<MemorySpace>("tessera::device::Memory", bytes);
  if (data_ == nullptr) {
    throw Error(concat("cannot allocate ", bytes, " bytes for kernels: not enough memory"));
  }
}

Memory::~Memory() {
  if (data_ == nullptr) return;
  if constexpr (kHostMemory) {
    std::free(data_);
  } else {
    Kokkos::kokkos_free<MemorySpace>(data_);
  }
}

Memory::Memory(Memory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Memory& Memory::operator=(Memory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace tessera::device
