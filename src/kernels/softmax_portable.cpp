// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/portable_element.hpp"
#include "kernels/portable_team.hpp"
#include "kernels/softmax.hpp"

namespace tessera::kernels::portable {
namespace {

template <class C>
KOKKOS_INLINE_FUNCTION double lowest() {
  return sizeof(C) == 8 ? -1.7976931348623157e308 : -3.4028234663852886e38;
}

template <class E>
void max_rows(const device::Exec& exec, const SoftmaxPlan& plan) {
  using C = Compute<E>;
  for_each_team(
      "tessera::kernels::softmax_max", exec, plan.rows, 1, KOKKOS_LAMBDA(const Member& member) {
        const std::int64_t r = member.league_rank();
        const E* x = static_cast<const E*>(plan.logits) + r * plan.local;
        double max = lowest<C>();
        for (std::int64_t j = member.team_rank(); j < plan.local; j += member.team_size()) {
          max = Larger()(max, static_cast<double>(load(x[j])));
        }
        max = team_join(member, max, Larger());
        if (member.team_rank() == 0) static_cast<C*>(plan.max)[r] = static_cast<C>(max);
      });
}

template <class E>
void sum_rows(const device::Exec& exec, const SoftmaxPlan& plan) {
  using C = Compute<E>;
  for_each_team(
      "tessera::kernels::softmax_sums", exec, plan.rows, 2, KOKKOS_LAMBDA(const Member& member) {
        const std::int64_t r = member.league_rank();
        const E* x = static_cast<const E*>(plan.logits) + r * plan.local;
        const C max = static_cast<const C*>(plan.max)[r];
        double exps = 0.0;
        double sum = 0.0;
        for (std::int64_t j = member.team_rank(); j < plan.local; j += member.team_size()) {
          exps += static_cast<double>(exponential(load(x[j]) - max));
          sum += static_cast<double>(load(x[j]));
        }
        exps = team_sum(member, exps);
        sum = team_sum(member, sum);
        if (member.team_rank() != 0) return;
        const std::int64_t label = plan.labels[r] - plan.first;
        C* sums = static_cast<C*>(plan.sums);
        sums[r] = static_cast<C>(exps);
        sums[plan.rows + r] = label >= 0 && label < plan.local ? load(x[label]) : C(0);
        if (plan.sum_count == 3) sums[2 * plan.rows + r] = static_cast<C>(sum);
      });
}

template <class C>
void finish_rows(const device::Exec& exec, const SoftmaxPlan& plan) {
  device::for_each_index(
      "tessera::kernels::softmax_finish", exec, plan.rows, KOKKOS_LAMBDA(std::int64_t r) {
        const C* sums = static_cast<const C*>(plan.sums);
        const double lse = static_cast<double>(static_cast<const C*>(plan.max)[r]) +
                           logarithm(static_cast<double>(sums[r]));
        const double label = static_cast<double>(sums[plan.rows + r]);
        const double sum = plan.sum_count == 3 ? static_cast<double>(sums[2 * plan.rows + r]) : 0.0;
        static_cast<C*>(plan.loss)[r] =
            static_cast<C>(lse - (1.0 - plan.smoothing) * label -
                           plan.smoothing / plan.vocab * sum + plan.z_loss * lse * lse);
        static_cast<C*>(plan.lse)[r] = static_cast<C>(lse);
      });
}

template <class E>
void backward_rows(const device::Exec& exec, const SoftmaxPlan& plan) {
  using C = Compute<E>;
  device::for_each_index(
      "tessera::kernels::softmax_backward", exec, plan.rows * plan.local,
      KOKKOS_LAMBDA(std::int64_t i) {
        const std::int64_t r = i / plan.local;
        const C lse = static_cast<const C*>(plan.lse)[r];
        const double dloss = static_cast<double>(static_cast<const C*>(plan.dloss)[r]);
        const C x = load(static_cast<const E*>(plan.logits)[i]);
        const double p = static_cast<double>(exponential(x - lse));
        double d = dloss * (p * (1.0 + 2.0 * plan.z_loss * static_cast<double>(lse)) -
                            plan.smoothing / plan.vocab);
        if (i % plan.local == plan.labels[r] - plan.first) d -= dloss * (1.0 - plan.smoothing);
        store(static_cast<E*>(plan.dlogits)[i], d);
      });
}

}  // namespace

void softmax_max(const device::Exec& exec, const SoftmaxPlan& plan) {
  with_element(plan.element, [&](auto e) { max_rows<decltype(e)>(exec, plan); });
}

void softmax_sums(const device::Exec& exec, const SoftmaxPlan& plan) {
  with_element(plan.element, [&](auto e) { sum_rows<decltype(e)>(exec, plan); });
}

void softmax_finish(const device::Exec& exec, const SoftmaxPlan& plan) {
  if (plan.element == kElementF64) return finish_rows<double>(exec, plan);
  finish_rows<float>(exec, plan);
}

void softmax_backward(const device::Exec& exec, const SoftmaxPlan& plan) {
  with_element(plan.element, [&](auto e) { backward_rows<decltype(e)>(exec, plan); });
}

}  // namespace tessera::kernels::portable
