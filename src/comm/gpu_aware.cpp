// SPDX-License-Identifier: BSD-3-Clause
#include "gpu_aware.hpp"

#include <algorithm>
#include <array>

#include "tessera/base/error.hpp"

namespace tessera::comm {
namespace {

constexpr std::size_t kWords = 4096;
using Words = std::array<std::int32_t, kWords>;

Words pattern(int rank) {
  Words words;
  for (std::size_t i = 0; i < kWords; ++i) words[i] = static_cast<std::int32_t>(i) * 7919 + rank;
  return words;
}

/// Each rank sends device memory to the next one; true if the values arrived on this rank.
bool exchange_brings_values(const MpiWorld& world, const device::Exec& exec) {
  const int next = (world.rank() + 1) % world.size();
  const int previous = (world.rank() + world.size() - 1) % world.size();
  const device::Memory send(sizeof(Words)), receive(sizeof(Words));
  const Words sent = pattern(world.rank()), cleared{};
  device::copy_from_host(exec, send.data(), sent.data(), sizeof(Words));
  device::copy_from_host(exec, receive.data(), cleared.data(), sizeof(Words));
  const int code = MPI_Sendrecv(send.data(), kWords, MPI_INT32_T, next, 0, receive.data(), kWords,
                                MPI_INT32_T, previous, 0, world.communicator(), MPI_STATUS_IGNORE);
  Words got{};
  device::copy_to_host(exec, got.data(), receive.data(), sizeof(Words));
  return code == MPI_SUCCESS && got == pattern(previous);
}

}  // namespace

bool mpi_claims_gpu_aware() {
#if defined(MPIX_GPU_SUPPORT_CUDA)
  for (int kind : {MPIX_GPU_SUPPORT_CUDA, MPIX_GPU_SUPPORT_ZE, MPIX_GPU_SUPPORT_HIP}) {
    int supported = 0;
    if (MPIX_GPU_query_support(kind, &supported) == MPI_SUCCESS && supported) return true;
  }
#endif
  // Open MPI's MPIX_Query_cuda_support speaks of messages and blocking collectives. Transport calls
  // nonblocking ones, whose sums it computes on the host: they crash (open-mpi/ompi issue 9845).
  return false;
}

bool must_stage(GpuAware wish, const MpiWorld& world, const device::Exec* exec) {
  if (device::Exec::is_host()) return false;
  if (wish == GpuAware::off) return true;
  TESSERA_CHECK(exec, "collectives on a device need the instance that kernels run on");
  const auto claims = world.gather_integer(mpi_claims_gpu_aware() ? 1 : 0);
  const bool all_claim = std::ranges::count(claims, 0) == 0;
  if (wish == GpuAware::automatic && !all_claim) return true;
  const auto proofs = world.gather_integer(exchange_brings_values(world, *exec) ? 1 : 0);
  const bool proven = std::ranges::count(proofs, 0) == 0;
  check_user(proven || wish == GpuAware::automatic,
             "comm.gpu_aware = on, but MPI brought wrong values when it was given pointers to the "
             "GPU's memory; use an MPI built for this GPU, or comm.gpu_aware = auto");
  return !proven;
}

}  // namespace tessera::comm
