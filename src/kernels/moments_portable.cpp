// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/moments.hpp"
#include "kernels/portable_element.hpp"
#include "kernels/portable_team.hpp"

namespace tessera::kernels::portable {
namespace {

template <class C>
void counts(const device::Exec& exec, const MomentsPlan& plan) {
  device::for_each_index(
      "tessera::kernels::moments_count", exec, plan.rows, KOKKOS_LAMBDA(std::int64_t r) {
        static_cast<C*>(plan.share)[r] = static_cast<const C*>(plan.moments)[3 * r];
      });
}

template <class C>
void means(const device::Exec& exec, const MomentsPlan& plan) {
  device::for_each_index(
      "tessera::kernels::moments_mean", exec, plan.rows, KOKKOS_LAMBDA(std::int64_t r) {
        const C* of_row = static_cast<const C*>(plan.moments) + 3 * r;
        static_cast<C*>(plan.share)[r] = static_cast<C>(
            static_cast<double>(of_row[0]) * static_cast<double>(of_row[1]) / plan.whole);
      });
}

template <class C>
void variances(const device::Exec& exec, const MomentsPlan& plan) {
  device::for_each_index(
      "tessera::kernels::moments_variance", exec, plan.rows, KOKKOS_LAMBDA(std::int64_t r) {
        const C* of_row = static_cast<const C*>(plan.moments) + 3 * r;
        const double mean =
            plan.mean == nullptr ? 0.0 : static_cast<double>(static_cast<const C*>(plan.mean)[r]);
        const double apart = static_cast<double>(of_row[1]) - mean;
        static_cast<C*>(plan.share)[r] = static_cast<C>(
            (static_cast<double>(of_row[2]) + static_cast<double>(of_row[0]) * apart * apart) /
            plan.whole);
      });
}

}  // namespace

void moments_count(const device::Exec& exec, const MomentsPlan& plan) {
  if (plan.as_double) return counts<double>(exec, plan);
  counts<float>(exec, plan);
}

void moments_mean(const device::Exec& exec, const MomentsPlan& plan) {
  if (plan.as_double) return means<double>(exec, plan);
  means<float>(exec, plan);
}

void moments_variance(const device::Exec& exec, const MomentsPlan& plan) {
  if (plan.as_double) return variances<double>(exec, plan);
  variances<float>(exec, plan);
}

}  // namespace tessera::kernels::portable
