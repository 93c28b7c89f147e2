// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>

#include "kernels/builtin.hpp"
#include "kernels/einsum_host.hpp"
#include "tessera/base/error.hpp"
#include "tessera/kernels/gemm.hpp"
#include "tessera/kernels/variant.hpp"

namespace tessera::kernels {
namespace {

/// All operands of one full-precision type: BLAS reads and writes them where they lie. The last
/// outer loop is given to the product as its batch.
template <class T>
void run_products(const device::Exec& exec, const EinsumPlan& plan,
                  const EinsumOperands& operands) {
  EinsumLoops outer = plan.outer;
  Gemm<T> product;
  product.transpose_a = plan.a.transpose, product.lda = plan.a.ld;
  product.transpose_b = plan.b.transpose, product.ldb = plan.b.ld;
  product.ldc = plan.c.ld;
  product.m = plan.m.extent, product.n = plan.n.extent, product.k = plan.k.extent;
  product.alpha = static_cast<T>(operands.alpha);
  if (outer.count > 0) {
    const EinsumLoop& batch = outer.loop[--outer.count];
    product.batch = batch.extent;
    product.stride_a = batch.a, product.stride_b = batch.b, product.stride_c = batch.c;
  }
  const auto* a = static_cast<const T*>(operands.a);
  const auto* b = static_cast<const T*>(operands.b);
  auto* c = static_cast<T*>(operands.c);
  for_each_place(outer, [&](std::int64_t at_a, std::int64_t at_b, std::int64_t at_c) {
    bool first = !operands.accumulate;
    for_each_place(plan.sums, [&](std::int64_t more_a, std::int64_t more_b, std::int64_t) {
      product.a = a + at_a + more_a, product.b = b + at_b + more_b, product.c = c + at_c;
      product.beta = first ? T(0) : T(1);
      gemm(exec, product);
      first = false;
    });
  });
}

void einsum(const device::Exec& exec, const Call& call) {
  EinsumPlan plan = plan_einsum(call);
  if (plan.empty) return;
  const EinsumOperands operands = einsum_operands(call, plan);
  const bool same = operands.dtype_a == operands.dtype_c && operands.dtype_b == operands.dtype_c;
  if (plan.has_gemm && same && operands.dtype_c == DType::f32) {
    run_products<float>(exec, plan, operands);
  } else if (plan.has_gemm && same && operands.dtype_c == DType::f64) {
    run_products<double>(exec, plan, operands);
  } else if (use_portable()) {
    einsum_portable(exec, plan, operands);
  } else if (plan.has_gemm && operands.sum_type() == DType::f32) {
    einsum_panels(exec, plan, operands, call.workspace);
  } else {
    einsum_loops(plan, operands);
  }
}

}  // namespace

EinsumOperands einsum_operands(const Call& call, const EinsumPlan& plan) {
  EinsumOperands operands;
  const Tile& a = call.inputs[plan.swapped ? 1 : 0];
  const Tile& b = call.inputs[plan.swapped ? 0 : 1];
  const Tile& c = call.outputs[0];
  for (const Tile* tile : {&a, &b, &c}) {
    TESSERA_CHECK(is_floating(tile->dtype), "einsum of ", name_of(tile->dtype), " tensors");
  }
  operands.a = a.data, operands.b = b.data, operands.c = c.data;
  operands.dtype_a = a.dtype, operands.dtype_b = b.dtype, operands.dtype_c = c.dtype;
  operands.alpha = call.attributes.real_or("alpha", 1.0);
  operands.accumulate = call.attributes.integer_or("accumulate", 0) != 0;
  return operands;
}

void register_einsum_kernels() {
  register_kernel("einsum", einsum);
}

}  // namespace tessera::kernels
