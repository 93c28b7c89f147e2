// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// TESSERA_FUNCTION marks small functions that host and device code share.
#if defined(__CUDACC__) || defined(__HIPCC__)
#define TESSERA_FUNCTION __host__ __device__ inline
#else
#define TESSERA_FUNCTION inline
#endif
