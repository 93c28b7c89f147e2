// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/portable_element.hpp"
#include "kernels/positions.hpp"

namespace tessera::kernels::portable {
namespace {

/// One index for each pair, and one for the last element of an odd row.
template <class E>
void turn(const device::Exec& exec, const RotaryPlan& plan) {
  using C = Compute<E>;
  const std::int64_t half = plan.size / 2;
  const std::int64_t each = plan.size - half;
  device::for_each_index(
      "tessera::kernels::rotary", exec, plan.outer * plan.length * plan.inner * each,
      KOKKOS_LAMBDA(std::int64_t index) {
        const std::int64_t i = index % each;
        const std::int64_t row = index / each;
        const std::int64_t position = plan.first + row / plan.inner % plan.length;
        const E* x = static_cast<const E*>(plan.x) + row * plan.size;
        E* y = static_cast<E*>(plan.y) + row * plan.size;
        if (i == half) {
          y[plan.size - 1] = x[plan.size - 1];
          return;
        }
        const double frequency =
            power(plan.base, -2.0 * static_cast<double>(i) / static_cast<double>(plan.size));
        const double angle = static_cast<double>(position) * frequency;
        const C c = static_cast<C>(cosine(angle));
        const C s = static_cast<C>(plan.sign * sine(angle));
        const C a = load(x[i]);
        const C b = load(x[i + half]);
        store(y[i], static_cast<double>(a * c - b * s));
        store(y[i + half], static_cast<double>(a * s + b * c));
      });
}

template <class E>
void sinusoids(const device::Exec& exec, const SinusoidPlan& plan) {
  const std::int64_t half = plan.columns / 2;
  device::for_each_index(
      "tessera::kernels::sinusoid", exec, plan.length * plan.size,
      KOKKOS_LAMBDA(std::int64_t index) {
        const std::int64_t column = plan.first_column + index % plan.size;
        const std::int64_t i = column < half ? column : column - half;
        const double steps = half > 1 ? static_cast<double>(half - 1) : 1.0;
        const double frequency = power(10000.0, -static_cast<double>(i) / steps);
        const double angle =
            static_cast<double>(plan.first_position + index / plan.size) * frequency;
        const double value = column < half ? sine(angle) : column < 2 * half ? cosine(angle) : 0.0;
        store(static_cast<E*>(plan.y)[index], value);
      });
}

}  // namespace

void rotary(const device::Exec& exec, const RotaryPlan& plan) {
  with_element(plan.element, [&](auto e) { turn<decltype(e)>(exec, plan); });
}

void sinusoid(const device::Exec& exec, const SinusoidPlan& plan) {
  with_element(plan.element, [&](auto e) { sinusoids<decltype(e)>(exec, plan); });
}

}  // namespace tessera::kernels::portable
