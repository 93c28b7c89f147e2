// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "kernels/einsum_plan.hpp"
#include "tessera/base/dtype.hpp"
#include "tessera/device/exec.hpp"

namespace tessera::kernels {

/// What einsum's loops read and write; A and B have changed places already if the plan says so.
struct EinsumOperands {
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  DType dtype_a = DType::f32;
  DType dtype_b = DType::f32;
  DType dtype_c = DType::f32;
  double alpha = 1;
  bool accumulate = false;

  /// f64 if an operand is; 16-bit numbers are multiplied and summed in f32.
  DType sum_type() const {
    const bool wide = dtype_a == DType::f64 || dtype_b == DType::f64 || dtype_c == DType::f64;
    return wide ? DType::f64 : DType::f32;
  }
};
EinsumOperands einsum_operands(const Call& call, const EinsumPlan& plan);

/// f(a, b, c) with the places of every turn of all loops, the first loop outermost.
template <class Function>
void for_each_place(const EinsumLoops& loops, const Function& f, int depth = 0, std::int64_t a = 0,
                    std::int64_t b = 0, std::int64_t c = 0) {
  if (depth == loops.count) {
    f(a, b, c);
    return;
  }
  const EinsumLoop& loop = loops.loop[depth];
  for (std::int64_t i = 0; i < loop.extent; ++i) {
    for_each_place(loops, f, depth + 1, a + i * loop.a, b + i * loop.b, c + i * loop.c);
  }
}

/// The product with 16-bit operands converted, panel by panel, into `workspace`.
void einsum_panels(const device::Exec& exec, const EinsumPlan& plan, const EinsumOperands& operands,
                   void* workspace);
/// Loops alone, on the host.
void einsum_loops(const EinsumPlan& plan, const EinsumOperands& operands);
/// Any plan, one index per element of C.
void einsum_portable(const device::Exec& exec, const EinsumPlan& plan,
                     const EinsumOperands& operands);

}  // namespace tessera::kernels
