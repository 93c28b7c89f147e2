// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

namespace tessera::device {

/// Threads that the host's BLAS may use in one call; device::Runtime sets 1, because ranks are the
/// parallelism.
void set_blas_threads(int threads);
int blas_threads();
/// "OpenBLAS 0.3.21 Haswell".
std::string describe_blas();

}  // namespace tessera::device
