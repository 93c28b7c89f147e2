// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "tessera/device/compat.hpp"
#include "tessera/device/exec.hpp"

/// Kokkos behind device::Exec: for the kernels' portable variants only.
namespace tessera::device {

struct Exec::Impl {
  ExecutionSpace space;
};

/// The instance on which `exec` launches.
inline const ExecutionSpace& space_of(const Exec& exec) {
  return exec.impl().space;
}

/// f(i) for i in [0, n) on the instance; nothing is launched for n < 1.
template <class Function>
void for_each_index(const char* label, const Exec& exec, std::int64_t n, const Function& f) {
  if (n < 1) return;
  using Range = Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::int64_t>>;
  Kokkos::parallel_for(label, Range(space_of(exec), 0, n), f);
}

}  // namespace tessera::device
