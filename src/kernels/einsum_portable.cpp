// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/einsum_host.hpp"
#include "kernels/gemm_cublas.hpp"
#include "tessera/base/bf16.hpp"
#include "tessera/base/element.hpp"
#include "tessera/device/kokkos.hpp"

namespace tessera::kernels {
namespace {

struct Places {
  std::int64_t a = 0;
  std::int64_t b = 0;
  std::int64_t c = 0;
};

/// Adds the places of turn `index` of all loops, the last loop fastest.
TESSERA_FUNCTION void add_places(const EinsumLoops& loops, std::int64_t index, Places& at) {
  for (int i = loops.count - 1; i >= 0; --i) {
    const std::int64_t turn = index % loops.loop[i].extent;
    index /= loops.loop[i].extent;
    at.a += turn * loops.loop[i].a;
    at.b += turn * loops.loop[i].b;
    at.c += turn * loops.loop[i].c;
  }
}

/// The plan's loops as two nests: over elements of C and over what is summed.
struct Nests {
  EinsumLoops outer;
  EinsumLoops sums;
};

Nests nests_of(const EinsumPlan& plan) {
  Nests nests{plan.outer, plan.sums};
  if (plan.has_gemm) {
    nests.outer.add(plan.m);
    nests.outer.add(plan.n);
    nests.sums.add(plan.k);
  }
  return nests;
}

template <class Sum>
void run_elements(const device::Exec& exec, const EinsumPlan& plan,
                  const EinsumOperands& operands) {
  const Nests nests = nests_of(plan);
  const std::int64_t sums = nests.sums.size();
  device::for_each_index(
      "tessera::kernels::einsum", exec, nests.outer.size(), KOKKOS_LAMBDA(std::int64_t index) {
        Places first;
        add_places(nests.outer, index, first);
        Sum sum = 0;
        for (std::int64_t i = 0; i < sums; ++i) {
          Places at = first;
          add_places(nests.sums, i, at);
          sum += static_cast<Sum>(number_at(operands.a, operands.dtype_a, at.a)) *
                 static_cast<Sum>(number_at(operands.b, operands.dtype_b, at.b));
        }
        double value = operands.alpha * static_cast<double>(sum);
        if (operands.accumulate) value += number_at(operands.c, operands.dtype_c, first.c);
        set_number(operands.c, operands.dtype_c, first.c, value);
      });
}

template <class T>
const T* advance(const void* data, std::int64_t by) {
  return static_cast<const T*>(data) + by;
}

/// 16-bit inputs by cuBLAS; false if it cannot, and then nothing was launched. A 16-bit C must come
/// out of one product, lest it be rounded on the way.
bool run_mixed_products(const device::Exec& exec, const EinsumPlan& plan,
                        const EinsumOperands& operands) {
  const bool wide = operands.dtype_c == DType::f32;
  if (!plan.has_gemm || operands.dtype_a != DType::bf16 || operands.dtype_b != DType::bf16 ||
      operands.dtype_c == DType::f64 || (!wide && plan.sums.size() != 1)) {
    return false;
  }
  MixedGemm product;
  Gemm<float>& shape = product.shape;
  shape.transpose_a = plan.a.transpose, shape.lda = plan.a.ld;
  shape.transpose_b = plan.b.transpose, shape.ldb = plan.b.ld;
  shape.ldc = plan.c.ld;
  shape.m = plan.m.extent, shape.n = plan.n.extent, shape.k = plan.k.extent;
  shape.alpha = static_cast<float>(operands.alpha);
  product.dtype_c = operands.dtype_c;
  bool done = true;
  for_each_place(plan.outer, [&](std::int64_t at_a, std::int64_t at_b, std::int64_t at_c) {
    shape.beta = operands.accumulate ? 1.0f : 0.0f;
    for_each_place(plan.sums, [&](std::int64_t more_a, std::int64_t more_b, std::int64_t) {
      product.a = advance<Bf16>(operands.a, at_a + more_a);
      product.b = advance<Bf16>(operands.b, at_b + more_b);
      product.c = static_cast<char*>(operands.c) + at_c * (wide ? 4 : 2);
      done = done && gemm_cublas(exec, product);
      shape.beta = 1.0f;
    });
  });
  return done;
}

}  // namespace

void einsum_portable(const device::Exec& exec, const EinsumPlan& plan,
                     const EinsumOperands& operands) {
  if (run_mixed_products(exec, plan, operands)) return;
  if (operands.sum_type() == DType::f64) {
    run_elements<double>(exec, plan, operands);
  } else {
    run_elements<float>(exec, plan, operands);
  }
}

}  // namespace tessera::kernels
