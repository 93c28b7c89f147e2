// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "tessera/comm/mpi_collectives.hpp"
#include "tessera/comm/mpi_world.hpp"
#include "tessera/device/exec.hpp"

namespace tessera::comm {

/// Whether this MPI library says that it takes pointers to a device's memory, in nonblocking
/// collectives too.
bool mpi_claims_gpu_aware();

/// Whether collectives must go through host memory. Collective, equal on all ranks. With
/// `automatic` a library that claims to be GPU-aware must prove it by an exchange between
/// neighbours; with `on` it is a UserError if the exchange brings wrong values.
bool must_stage(GpuAware wish, const MpiWorld& world, const device::Exec* exec);

}  // namespace tessera::comm
