// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/isa/rotary.hpp"

#include "kernels/isa/element.hpp"
#include "kernels/pointwise_plan.hpp"

namespace tessera::kernels::isa::TESSERA_ISA {
namespace {

/// Cosines and sines of one position.
template <class C>
void find_turn(const RotaryPlan& plan, int64_t position) {
  const int64_t half = plan.size / 2;
  C* cosine = static_cast<C*>(plan.turn);
  C* sine = cosine + half;
  for (int64_t i = 0; i < half; ++i) {
    const double angle = static_cast<double>(position) * plan.frequency[i];
    cosine[i] = static_cast<C>(__builtin_cos(angle));
    sine[i] = static_cast<C>(plan.sign * __builtin_sin(angle));
  }
}

template <class E>
void turn_row(const RotaryPlan& plan, const E* x, E* y) {
  using C = Compute<E>;
  const int64_t half = plan.size / 2;
  const C* cosine = static_cast<const C*>(plan.turn);
  const C* sine = cosine + half;
#pragma GCC ivdep
  for (int64_t i = 0; i < half; ++i) {
    const C a = load(x[i]);
    const C b = load(x[i + half]);
    store(y[i], a * cosine[i] - b * sine[i]);
    store(y[i + half], a * sine[i] + b * cosine[i]);
  }
  if (plan.size % 2 != 0) y[plan.size - 1] = x[plan.size - 1];
}

template <class E>
void turn(const RotaryPlan& plan) {
  const E* x = static_cast<const E*>(plan.x);
  E* y = static_cast<E*>(plan.y);
  const int64_t row = plan.inner * plan.size;
  for (int64_t l = 0; l < plan.length; ++l) {
    find_turn<Compute<E>>(plan, plan.first + l);
    for (int64_t o = 0; o < plan.outer; ++o) {
      const int64_t at = (o * plan.length + l) * row;
      for (int64_t i = 0; i < plan.inner; ++i) {
        turn_row(plan, x + at + i * plan.size, y + at + i * plan.size);
      }
    }
  }
}

}  // namespace

void rotary(const RotaryPlan& plan) {
  if (plan.element == kElementF64) return turn<double>(plan);
  if (plan.element == kElementBf16) return turn<Bf16>(plan);
  turn<float>(plan);
}

}  // namespace tessera::kernels::isa::TESSERA_ISA
