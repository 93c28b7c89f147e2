// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/device/exec.hpp"

#include <cstring>

#include "tessera/device/kokkos.hpp"

namespace tessera::device {
namespace {

using HostBytes = Kokkos::View<char*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>;
using ConstHostBytes = Kokkos::View<const char*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>;
using Bytes = Kokkos::View<char*, MemorySpace, Kokkos::MemoryUnmanaged>;
using ConstBytes = Kokkos::View<const char*, MemorySpace, Kokkos::MemoryUnmanaged>;

}  // namespace

Exec::Exec() : impl_(new Impl{ExecutionSpace()}) {}
Exec::~Exec() = default;
Exec::Exec(Exec&&) noexcept = default;
Exec& Exec::operator=(Exec&&) noexcept = default;

bool Exec::is_host() {
  return kHostMemory;
}

void Exec::fence() const {
  device::fence(impl_->space, "tessera::device::Exec::fence");
}

void copy_to_host(const Exec& exec, void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  exec.fence();
  if (Exec::is_host()) {
    std::memcpy(to, from, bytes);
    return;
  }
  Kokkos::deep_copy(space_of(exec), HostBytes(static_cast<char*>(to), bytes),
                    ConstBytes(static_cast<const char*>(from), bytes));
  exec.fence();
}

void copy_from_host(const Exec& exec, void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  exec.fence();
  if (Exec::is_host()) {
    std::memcpy(to, from, bytes);
    return;
  }
  Kokkos::deep_copy(space_of(exec), Bytes(static_cast<char*>(to), bytes),
                    ConstHostBytes(static_cast<const char*>(from), bytes));
  exec.fence();
}

}  // namespace tessera::device
