// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <limits>

#include "tessera/base/error.hpp"
#include "tessera/device/kokkos.hpp"

/// Teams that reduce in a fixed order.
namespace tessera::kernels::portable {

using Policy = Kokkos::TeamPolicy<device::ExecutionSpace>;
using Member = Policy::member_type;
using Scratch = Kokkos::View<double*, device::ExecutionSpace::scratch_memory_space,
                             Kokkos::MemoryTraits<Kokkos::Unmanaged>>;

/// Threads of a team: fixed, so that sums don't depend on the device's occupancy.
inline constexpr int kTeamSize = device::kHostMemory ? 1 : 128;

/// f(member) for teams [0, n); team_join may be called `joins` times (each has its own scratch).
template <class Function>
void for_each_team(const char* label, const device::Exec& exec, std::int64_t n, int joins,
                   const Function& f) {
  if (n < 1) return;
  TESSERA_CHECK(n <= std::numeric_limits<int>::max(), label, ": ", n, " teams on one rank");
  Policy policy(device::space_of(exec), static_cast<int>(n), kTeamSize);
  const std::size_t bytes = Scratch::shmem_size(kTeamSize) * static_cast<std::size_t>(joins);
  policy.set_scratch_size(0, Kokkos::PerTeam(static_cast<int>(bytes)));
  Kokkos::parallel_for(label, policy, f);
}

/// Joins one number of each thread by a tree of fixed shape; all threads get the result.
template <class Join>
KOKKOS_INLINE_FUNCTION double team_join(const Member& member, double part, const Join& join) {
  const int size = member.team_size();
  if (size == 1) return part;
  Scratch shared(member.team_scratch(0), static_cast<std::size_t>(size));
  const int me = member.team_rank();
  shared(static_cast<std::size_t>(me)) = part;
  for (int width = kTeamSize / 2; width > 0; width /= 2) {
    member.team_barrier();
    if (me < width && me + width < size) {
      shared(static_cast<std::size_t>(me)) =
          join(shared(static_cast<std::size_t>(me)), shared(static_cast<std::size_t>(me + width)));
    }
  }
  member.team_barrier();
  return shared(0);
}

struct Add {
  KOKKOS_INLINE_FUNCTION double operator()(double a, double b) const { return a + b; }
};
struct Larger {
  KOKKOS_INLINE_FUNCTION double operator()(double a, double b) const {
    return b > a || b != b ? b : a;
  }
};

/// Sum of one number of each thread.
KOKKOS_INLINE_FUNCTION double team_sum(const Member& member, double part) {
  return team_join(member, part, Add());
}

}  // namespace tessera::kernels::portable
