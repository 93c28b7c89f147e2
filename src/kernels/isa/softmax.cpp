// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/isa/softmax.hpp"

#include "kernels/isa/lanes.hpp"
#include "kernels/pointwise_plan.hpp"

namespace tessera::kernels::isa::TESSERA_ISA {
namespace {

template <class C>
constexpr C lowest() {
  return sizeof(C) == 8 ? static_cast<C>(-1.7976931348623157e308) : static_cast<C>(-3.4028235e38f);
}

template <class E>
void max_rows(const SoftmaxPlan& plan) {
  using C = Compute<E>;
  C* max = static_cast<C*>(plan.max);
  for (int64_t r = 0; r < plan.rows; ++r) {
    const E* x = static_cast<const E*>(plan.logits) + r * plan.local;
    const C m = max_lanes<C>(plan.local, [=](int64_t j) { return load(x[j]); });
    // Finite also where the vocabulary's part is empty or all logits are -infinity, so that
    // differences to it are numbers.
    max[r] = m < lowest<C>() ? lowest<C>() : m;
  }
}

template <class E>
void sum_rows(const SoftmaxPlan& plan) {
  using C = Compute<E>;
  const C* max = static_cast<const C*>(plan.max);
  C* sums = static_cast<C*>(plan.sums);
  for (int64_t r = 0; r < plan.rows; ++r) {
    const E* x = static_cast<const E*>(plan.logits) + r * plan.local;
    const C m = max[r];
    const int64_t label = plan.labels[r] - plan.first;
    sums[r] =
        static_cast<C>(sum_lanes<C>(plan.local, [=](int64_t j) { return exp(load(x[j]) - m); }));
    sums[plan.rows + r] = label >= 0 && label < plan.local ? load(x[label]) : C(0);
    if (plan.sum_count == 3)
      sums[2 * plan.rows + r] =
          static_cast<C>(sum_lanes<C>(plan.local, [=](int64_t j) { return load(x[j]); }));
  }
}

template <class C>
void finish_rows(const SoftmaxPlan& plan) {
  const C* max = static_cast<const C*>(plan.max);
  const C* sums = static_cast<const C*>(plan.sums);
  for (int64_t r = 0; r < plan.rows; ++r) {
    const double lse = max[r] + __builtin_log(static_cast<double>(sums[r]));
    const double all = plan.sum_count == 3 ? sums[2 * plan.rows + r] : C(0);
    const double loss = lse - (1.0 - plan.smoothing) * sums[plan.rows + r] -
                        plan.smoothing / plan.vocab * all + plan.z_loss * lse * lse;
    static_cast<C*>(plan.loss)[r] = static_cast<C>(loss);
    static_cast<C*>(plan.lse)[r] = static_cast<C>(lse);
  }
}

template <class E>
void backward_rows(const SoftmaxPlan& plan) {
  using C = Compute<E>;
  const C* lses = static_cast<const C*>(plan.lse);
  const C* dloss = static_cast<const C*>(plan.dloss);
  for (int64_t r = 0; r < plan.rows; ++r) {
    const E* x = static_cast<const E*>(plan.logits) + r * plan.local;
    E* dx = static_cast<E*>(plan.dlogits) + r * plan.local;
    const C lse = lses[r];
    const C factor = static_cast<C>(dloss[r] * (1.0 + 2.0 * plan.z_loss * lse));
    const C uniform = static_cast<C>(dloss[r] * plan.smoothing / plan.vocab);
    const int64_t label = plan.labels[r] - plan.first;
    const bool here = label >= 0 && label < plan.local;
    // In one piece, since p - 1 rounded to a short type twice would lose digits.
    const C at_label = here ? factor * exp(load(x[label]) - lse) - uniform -
                                  static_cast<C>(dloss[r] * (1.0 - plan.smoothing))
                            : C(0);
#pragma GCC ivdep
    for (int64_t j = 0; j < plan.local; ++j) {
      store(dx[j], factor * exp(load(x[j]) - lse) - uniform);
    }
    if (here) store(dx[label], at_label);
  }
}

}  // namespace

void softmax_max(const SoftmaxPlan& plan) {
  if (plan.element == kElementF64) return max_rows<double>(plan);
  if (plan.element == kElementBf16) return max_rows<Bf16>(plan);
  max_rows<float>(plan);
}

void softmax_sums(const SoftmaxPlan& plan) {
  if (plan.element == kElementF64) return sum_rows<double>(plan);
  if (plan.element == kElementBf16) return sum_rows<Bf16>(plan);
  sum_rows<float>(plan);
}

void softmax_finish(const SoftmaxPlan& plan) {
  if (plan.element == kElementF64) return finish_rows<double>(plan);
  finish_rows<float>(plan);
}

void softmax_backward(const SoftmaxPlan& plan) {
  if (plan.element == kElementF64) return backward_rows<double>(plan);
  if (plan.element == kElementBf16) return backward_rows<Bf16>(plan);
  backward_rows<float>(plan);
}

}  // namespace tessera::kernels::isa::TESSERA_ISA
