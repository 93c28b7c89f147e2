// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/portable_math.hpp"
#include "kernels/top_k.hpp"

namespace tessera::kernels::portable {
namespace {

template <class E>
void find_pairs(const device::Exec& exec, const TopKPlan& plan, const E* x) {
  device::for_each_index(
      "tessera::kernels::top_k_pairs", exec, plan.outer * plan.inner,
      KOKKOS_LAMBDA(std::int64_t r) {
        const E* row = x + r / plan.inner * plan.n * plan.inner + r % plan.inner;
        double* best = plan.pairs + r * plan.k * 2;
        clear_best(best, plan.k);
        for (std::int64_t j = 0; j < plan.n; ++j)
          insert_best(best, plan.k, static_cast<double>(load(row[j * plan.inner])),
                      static_cast<double>(plan.first + j));
      });
}

template <class E>
void merge(const device::Exec& exec, const TopKPlan& plan, E* values, std::int32_t* indices) {
  device::for_each_index(
      "tessera::kernels::top_k_merge", exec, plan.outer, KOKKOS_LAMBDA(std::int64_t r) {
        const double* best = merge_row(plan, plan.outer, r);
        for (std::int64_t i = 0; i < plan.k; ++i) {
          store(values[r * plan.k + i], best[2 * i]);
          indices[r * plan.k + i] = static_cast<std::int32_t>(best[2 * i + 1]);
        }
      });
}

}  // namespace

void top_k_pairs(const device::Exec& exec, const TopKPlan& plan, const Tile& x) {
  switch (x.dtype) {
    case DType::f64:
      return find_pairs(exec, plan, x.as<const double>());
    case DType::bf16:
      return find_pairs(exec, plan, x.as<const Bf16>());
    default:
      return find_pairs(exec, plan, x.as<const float>());
  }
}

void top_k_merge(const device::Exec& exec, const TopKPlan& plan, const Tile& values,
                 std::int32_t* indices) {
  switch (values.dtype) {
    case DType::f64:
      return merge(exec, plan, values.as<double>(), indices);
    case DType::bf16:
      return merge(exec, plan, values.as<Bf16>(), indices);
    default:
      return merge(exec, plan, values.as<float>(), indices);
  }
}

}  // namespace tessera::kernels::portable
