// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <Kokkos_Core.hpp>

/// Where versions of Kokkos differ (3.4.1 to 5.x). No other file tests KOKKOS_VERSION.
namespace tessera::device {

/// Mathematical functions for device code, overloaded for float and double.
namespace math {
#if KOKKOS_VERSION >= 30700
using Kokkos::cos;
using Kokkos::erf;
using Kokkos::exp;
using Kokkos::fabs;
using Kokkos::floor;
using Kokkos::log;
using Kokkos::pow;
using Kokkos::sin;
using Kokkos::sqrt;
using Kokkos::tanh;
#else
using Kokkos::Experimental::cos;
using Kokkos::Experimental::erf;
using Kokkos::Experimental::exp;
using Kokkos::Experimental::fabs;
using Kokkos::Experimental::floor;
using Kokkos::Experimental::log;
using Kokkos::Experimental::pow;
using Kokkos::Experimental::sin;
using Kokkos::Experimental::sqrt;
using Kokkos::Experimental::tanh;
#endif
}  // namespace math

using ExecutionSpace = Kokkos::DefaultExecutionSpace;
using MemorySpace = ExecutionSpace::memory_space;

/// Whether host code may read and write what kernels read and write.
inline constexpr bool kHostMemory =
    Kokkos::SpaceAccessibility<Kokkos::HostSpace, MemorySpace>::accessible &&
    Kokkos::SpaceAccessibility<ExecutionSpace, Kokkos::HostSpace>::accessible;

/// Accelerators that this process sees; 0 if kernels run on the host.
inline int device_count() {
  if constexpr (kHostMemory) {
    return 0;
  } else {
#if KOKKOS_VERSION >= 40000
    return Kokkos::num_devices();
#elif defined(KOKKOS_ENABLE_CUDA)
    return static_cast<int>(Kokkos::Cuda::detect_device_count());
#else
    return 1;
#endif
  }
}

/// Waits for one instance, under a label where Kokkos takes one.
inline void fence(const ExecutionSpace& space, const char* label) {
#if KOKKOS_VERSION >= 30500
  space.fence(label);
#else
  (void)label;
  space.fence();
#endif
}

}  // namespace tessera::device
