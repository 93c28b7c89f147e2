// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/gemm_cublas.hpp"

#include "tessera/device/kokkos.hpp"

#if defined(KOKKOS_ENABLE_CUDA)
#include <cublas_v2.h>

#include <limits>

#include "tessera/base/error.hpp"

namespace tessera::kernels {
namespace {

void check(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Error(concat("cuBLAS: ", call, " failed: ", cublasGetStatusString(status)));
}

/// One handle for the process; its stream is set before each call. Never destroyed: at exit the
/// driver may be gone already.
cublasHandle_t handle_on(const device::Exec& exec) {
  static cublasHandle_t handle = [] {
    cublasHandle_t created = nullptr;
    check(cublasCreate(&created), "cublasCreate");
    // A 16-bit C is rounded once: parts of a long k are not added up in 16 bits.
    check(cublasSetMathMode(created, CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION),
          "cublasSetMathMode");
    return created;
  }();
  check(cublasSetStream(handle, device::space_of(exec).cuda_stream()), "cublasSetStream");
  return handle;
}

cublasOperation_t flag(bool transpose) {
  return transpose ? CUBLAS_OP_T : CUBLAS_OP_N;
}

template <class T>
bool fits(const Gemm<T>& p) {
  constexpr std::int64_t limit = std::numeric_limits<int>::max();
  return p.m <= limit && p.n <= limit && p.k <= limit && p.lda <= limit && p.ldb <= limit &&
         p.ldc <= limit && p.batch <= limit;
}

int narrow(std::int64_t extent) {
  return static_cast<int>(extent);
}

}  // namespace

// cuBLAS is column-major: a row-major product is the product of the swapped operands.
bool gemm_cublas(const device::Exec& exec, const Gemm<float>& p) {
  if (!fits(p)) return false;
  check(cublasSgemmStridedBatched(handle_on(exec), flag(p.transpose_b), flag(p.transpose_a),
                                  narrow(p.n), narrow(p.m), narrow(p.k), &p.alpha, p.b,
                                  narrow(p.ldb), p.stride_b, p.a, narrow(p.lda), p.stride_a,
                                  &p.beta, p.c, narrow(p.ldc), p.stride_c, narrow(p.batch)),
        "cublasSgemmStridedBatched");
  return true;
}

bool gemm_cublas(const device::Exec& exec, const Gemm<double>& p) {
  if (!fits(p)) return false;
  check(cublasDgemmStridedBatched(handle_on(exec), flag(p.transpose_b), flag(p.transpose_a),
                                  narrow(p.n), narrow(p.m), narrow(p.k), &p.alpha, p.b,
                                  narrow(p.ldb), p.stride_b, p.a, narrow(p.lda), p.stride_a,
                                  &p.beta, p.c, narrow(p.ldc), p.stride_c, narrow(p.batch)),
        "cublasDgemmStridedBatched");
  return true;
}

bool gemm_cublas(const device::Exec& exec, const MixedGemm& mixed) {
  const Gemm<float>& p = mixed.shape;
  if (!fits(p)) return false;
  const cudaDataType_t type_c = mixed.dtype_c == DType::bf16 ? CUDA_R_16BF : CUDA_R_32F;
  check(cublasGemmStridedBatchedEx(
            handle_on(exec), flag(p.transpose_b), flag(p.transpose_a), narrow(p.n), narrow(p.m),
            narrow(p.k), &p.alpha, mixed.b, CUDA_R_16BF, narrow(p.ldb), p.stride_b, mixed.a,
            CUDA_R_16BF, narrow(p.lda), p.stride_a, &p.beta, mixed.c, type_c, narrow(p.ldc),
            p.stride_c, narrow(p.batch), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
        "cublasGemmStridedBatchedEx");
  return true;
}

}  // namespace tessera::kernels
#else
namespace tessera::kernels {

bool gemm_cublas(const device::Exec&, const Gemm<float>&) {
  return false;
}
bool gemm_cublas(const device::Exec&, const Gemm<double>&) {
  return false;
}
bool gemm_cublas(const device::Exec&, const MixedGemm&) {
  return false;
}

}  // namespace tessera::kernels
#endif
