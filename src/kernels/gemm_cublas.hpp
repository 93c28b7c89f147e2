// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "tessera/base/dtype.hpp"
#include "tessera/kernels/gemm.hpp"

namespace tessera::kernels {

/// A product of matrices whose operands have different dtypes, computed in f32; else as Gemm.
struct MixedGemm {
  Gemm<float> shape;  ///< a, b, c are not used
  DType dtype_c = DType::bf16;
  const void* a = nullptr;  ///< bf16
  const void* b = nullptr;  ///< bf16
  void* c = nullptr;
};

/// cuBLAS on the instance's stream. False where this build has none, or the extents are beyond 32
/// bits: then nothing was launched. k is at least 1.
bool gemm_cublas(const device::Exec& exec, const Gemm<float>& product);
bool gemm_cublas(const device::Exec& exec, const Gemm<double>& product);
bool gemm_cublas(const device::Exec& exec, const MixedGemm& product);

}  // namespace tessera::kernels
