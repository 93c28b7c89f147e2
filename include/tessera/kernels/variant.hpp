// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace tessera::kernels {

/// Each kernel has a fast host path, compiled for several x86-64 levels, and a portable variant in
/// Kokkos for accelerators. True where the portable one has to run.
bool use_portable();
/// For tests: run the portable variant on the host too, so that the two can be compared.
void force_portable(bool on);

}  // namespace tessera::kernels
