// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/group_norm.hpp"
#include "kernels/portable_element.hpp"
#include "kernels/portable_team.hpp"

namespace tessera::kernels::portable {
namespace {

KOKKOS_INLINE_FUNCTION double scale_at(const GroupNormPlan& plan, std::int64_t j) {
  return element_at(plan.scale, plan.scale_element, j, 1.0);
}

/// Whether row `row` of x [outer before, line] counts in statistics.
KOKKOS_INLINE_FUNCTION bool counts(const GroupNormPlan& plan, std::int64_t row) {
  return plan.row_weights == nullptr || plan.row_weights[row / (plan.before / plan.masked)] != 0.0F;
}

/// Mean and 1 / standard deviation of group `r`, counted over [outer, kept].
template <class C>
struct Statistics {
  double mean;
  double rstd;

  KOKKOS_INLINE_FUNCTION Statistics(const GroupNormPlan& plan, std::int64_t r)
      : mean(static_cast<const C*>(plan.mean)[r]),
        rstd(1.0 / square_root(static_cast<double>(static_cast<const C*>(plan.variance)[r]) +
                               plan.epsilon)) {}
};

/// Place in x of element i of group r.
KOKKOS_INLINE_FUNCTION std::int64_t place(const GroupNormPlan& plan, std::int64_t r,
                                          std::int64_t i) {
  return ((r / plan.kept * plan.before + i / plan.after) * plan.kept + r % plan.kept) * plan.after +
         i % plan.after;
}

/// A team for each group.
template <class E>
void moments(const device::Exec& exec, const GroupNormPlan& plan) {
  using C = Compute<E>;
  for_each_team(
      "tessera::kernels::group_norm_moments", exec, plan.outer * plan.kept, 3,
      KOKKOS_LAMBDA(const Member& member) {
        const std::int64_t r = member.league_rank(), n = plan.before * plan.after;
        const E* x = static_cast<const E*>(plan.x);
        const std::int64_t row = r / plan.kept * plan.before;
        double sum = 0.0, counted = 0.0;
        for (std::int64_t i = member.team_rank(); i < n; i += member.team_size()) {
          if (!counts(plan, row + i / plan.after)) continue;
          sum += static_cast<double>(load(x[place(plan, r, i)]));
          counted += 1.0;
        }
        sum = team_sum(member, sum);
        counted = team_sum(member, counted);
        const double mean = counted > 0.0 ? sum / counted : 0.0;
        double m2 = 0.0;
        for (std::int64_t i = member.team_rank(); i < n; i += member.team_size()) {
          if (!counts(plan, row + i / plan.after)) continue;
          const double d = static_cast<double>(load(x[place(plan, r, i)])) - mean;
          m2 += d * d;
        }
        m2 = team_sum(member, m2);
        C* out = static_cast<C*>(plan.moments) + 3 * r;
        if (member.team_rank() == 0) {
          out[0] = static_cast<C>(counted);
          out[1] = static_cast<C>(mean);
          out[2] = static_cast<C>(m2);
        }
      });
}

/// A team for each group; then one for each element of a line.
template <class E>
void backward_sums(const device::Exec& exec, const GroupNormPlan& plan) {
  using C = Compute<E>;
  for_each_team(
      "tessera::kernels::group_norm_backward_sums", exec, plan.outer * plan.kept, 2,
      KOKKOS_LAMBDA(const Member& member) {
        const std::int64_t r = member.league_rank();
        const Statistics<C> s(plan, r);
        double sum = 0.0, sum_x = 0.0;
        for (std::int64_t i = member.team_rank(); i < plan.before * plan.after;
             i += member.team_size()) {
          const std::int64_t at = place(plan, r, i);
          const double d = static_cast<double>(load(static_cast<const E*>(plan.dy)[at])) *
                           scale_at(plan, r % plan.kept * plan.after + i % plan.after);
          sum += d;
          sum_x +=
              d * (static_cast<double>(load(static_cast<const E*>(plan.x)[at])) - s.mean) * s.rstd;
        }
        sum = team_sum(member, sum);
        sum_x = team_sum(member, sum_x);
        C* out = static_cast<C*>(plan.sums) + 2 * r;
        if (member.team_rank() == 0) {
          out[0] = static_cast<C>(sum);
          out[1] = static_cast<C>(sum_x);
        }
      });
  if (plan.dscale == nullptr && plan.dbias == nullptr) return;
  const std::int64_t line = plan.line();
  for_each_team(
      "tessera::kernels::group_norm_parameter_sums", exec, line, 2,
      KOKKOS_LAMBDA(const Member& member) {
        const std::int64_t j = member.league_rank();
        double sum = 0.0, sum_x = 0.0;
        for (std::int64_t row = member.team_rank(); row < plan.outer * plan.before;
             row += member.team_size()) {
          const Statistics<C> s(plan, row / plan.before * plan.kept + j / plan.after);
          const std::int64_t at = row * line + j;
          const double d = static_cast<double>(load(static_cast<const E*>(plan.dy)[at]));
          sum += d;
          sum_x +=
              d * (static_cast<double>(load(static_cast<const E*>(plan.x)[at])) - s.mean) * s.rstd;
        }
        sum = team_sum(member, sum);
        sum_x = team_sum(member, sum_x);
        if (member.team_rank() != 0) return;
        if (plan.dscale != nullptr) static_cast<C*>(plan.dscale)[j] = static_cast<C>(sum_x);
        if (plan.dbias != nullptr) static_cast<C*>(plan.dbias)[j] = static_cast<C>(sum);
      });
}

template <class E>
void backward_apply(const device::Exec& exec, const GroupNormPlan& plan) {
  using C = Compute<E>;
  const std::int64_t line = plan.line();
  device::for_each_index(
      "tessera::kernels::group_norm_backward_apply", exec, plan.outer * plan.before * line,
      KOKKOS_LAMBDA(std::int64_t i) {
        const std::int64_t j = i % line;
        const std::int64_t r = i / line / plan.before * plan.kept + j / plan.after;
        const Statistics<C> s(plan, r);
        const C* sums = static_cast<const C*>(plan.sums) + 2 * r;
        const double d = static_cast<double>(load(static_cast<const E*>(plan.dy)[i]));
        if (!counts(plan, i / line)) {
          store(static_cast<E*>(plan.y)[i], s.rstd * d * scale_at(plan, j));
          return;
        }
        const double size = plan.count == nullptr
                                ? plan.whole
                                : static_cast<double>(static_cast<const C*>(plan.count)[r]);
        const double normal =
            (static_cast<double>(load(static_cast<const E*>(plan.x)[i])) - s.mean) * s.rstd;
        store(static_cast<E*>(plan.y)[i],
              s.rstd * (d * scale_at(plan, j) - static_cast<double>(sums[0]) / size -
                        normal * static_cast<double>(sums[1]) / size));
      });
}

}  // namespace

void group_norm_moments(const device::Exec& exec, const GroupNormPlan& plan) {
  with_element(plan.element, [&](auto e) { moments<decltype(e)>(exec, plan); });
}

void group_norm_backward_sums(const device::Exec& exec, const GroupNormPlan& plan) {
  with_element(plan.element, [&](auto e) { backward_sums<decltype(e)>(exec, plan); });
}

void group_norm_backward_apply(const device::Exec& exec, const GroupNormPlan& plan) {
  with_element(plan.element, [&](auto e) { backward_apply<decltype(e)>(exec, plan); });
}

}  // namespace tessera::kernels::portable
