// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/portable_math.hpp"
#include "kernels/scan.hpp"

namespace tessera::kernels::portable {
namespace {

template <class E>
void total_of(const device::Exec& exec, const ScanPlan& plan, const E* x, double* total) {
  device::for_each_index(
      "tessera::kernels::scan_total", exec, plan.outer * plan.inner, KOKKOS_LAMBDA(std::int64_t c) {
        const E* from = x + c / plan.inner * plan.n * plan.inner + c % plan.inner;
        double sum = 0;
        for (std::int64_t j = 0; j < plan.n; ++j)
          sum += static_cast<double>(load(from[j * plan.inner]));
        total[c] = sum;
      });
}

template <class E>
void scan_columns(const device::Exec& exec, const ScanPlan& plan, const E* x, E* y) {
  device::for_each_index(
      "tessera::kernels::scan", exec, plan.outer * plan.inner, KOKKOS_LAMBDA(std::int64_t c) {
        const std::int64_t start = c / plan.inner * plan.n * plan.inner + c % plan.inner;
        double sum = carry_of(plan, c);
        for (std::int64_t step = 0; step < plan.n; ++step) {
          const std::int64_t at = start + (plan.reverse ? plan.n - 1 - step : step) * plan.inner;
          const double before = sum;
          sum += static_cast<double>(load(x[at]));
          store(y[at], plan.exclusive ? before : sum);
        }
      });
}

}  // namespace

void scan_total(const device::Exec& exec, const ScanPlan& plan, const Tile& x, double* total) {
  switch (x.dtype) {
    case DType::f64:
      return total_of(exec, plan, x.as<const double>(), total);
    case DType::bf16:
      return total_of(exec, plan, x.as<const Bf16>(), total);
    case DType::i32:
      return total_of(exec, plan, x.as<const std::int32_t>(), total);
    default:
      return total_of(exec, plan, x.as<const float>(), total);
  }
}

void scan(const device::Exec& exec, const ScanPlan& plan, const Tile& x, const Tile& y) {
  switch (x.dtype) {
    case DType::f64:
      return scan_columns(exec, plan, x.as<const double>(), y.as<double>());
    case DType::bf16:
      return scan_columns(exec, plan, x.as<const Bf16>(), y.as<Bf16>());
    case DType::i32:
      return scan_columns(exec, plan, x.as<const std::int32_t>(), y.as<std::int32_t>());
    default:
      return scan_columns(exec, plan, x.as<const float>(), y.as<float>());
  }
}

}  // namespace tessera::kernels::portable
