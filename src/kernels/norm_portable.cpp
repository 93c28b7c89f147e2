// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/norm.hpp"
#include "kernels/portable_element.hpp"
#include "kernels/portable_team.hpp"

namespace tessera::kernels::portable {
namespace {

KOKKOS_INLINE_FUNCTION double scale_at(const NormPlan& plan, std::int64_t j) {
  return element_at(plan.scale, plan.scale_element, j, 1.0);
}
KOKKOS_INLINE_FUNCTION double bias_at(const NormPlan& plan, std::int64_t j) {
  return element_at(plan.bias, plan.bias_element, j, 0.0);
}

KOKKOS_INLINE_FUNCTION std::int64_t row_start(const NormPlan& plan, std::int64_t r) {
  return r / plan.inner * plan.size * plan.inner + r % plan.inner;
}

/// Statistics of a row that the team shares.
struct Moments {
  double mean;
  double m2;
};

template <class E>
KOKKOS_INLINE_FUNCTION Moments team_moments(const Member& member, const NormPlan& plan,
                                            const E* x) {
  Moments result{0.0, 0.0};
  if (!plan.rms) {
    double sum = 0.0;
    for (std::int64_t j = member.team_rank(); j < plan.size; j += member.team_size()) {
      sum += static_cast<double>(load(x[j * plan.inner]));
    }
    sum = team_sum(member, sum);
    if (plan.size > 0) result.mean = sum / static_cast<double>(plan.size);
  }
  double m2 = 0.0;
  for (std::int64_t j = member.team_rank(); j < plan.size; j += member.team_size()) {
    const double d = static_cast<double>(load(x[j * plan.inner])) - result.mean;
    m2 += d * d;
  }
  result.m2 = team_sum(member, m2);
  return result;
}

/// Statistics first (if asked for), then y.
template <class E>
void forward(const device::Exec& exec, const NormPlan& plan, bool with_statistics) {
  using C = Compute<E>;
  for_each_team(
      "tessera::kernels::norm_forward", exec, plan.outer * plan.inner, 2,
      KOKKOS_LAMBDA(const Member& member) {
        const std::int64_t r = member.league_rank();
        const E* x = static_cast<const E*>(plan.x) + row_start(plan, r);
        E* y = static_cast<E*>(plan.y) + row_start(plan, r);
        C* means = static_cast<C*>(plan.mean);
        C* rstds = static_cast<C*>(plan.rstd);
        double mean = 0.0;
        double rstd = 0.0;
        if (with_statistics) {
          const Moments m = team_moments(member, plan, x);
          const double variance = plan.size > 0 ? m.m2 / static_cast<double>(plan.size) : 0.0;
          mean = static_cast<C>(m.mean);
          rstd = static_cast<C>(1.0 / square_root(variance + plan.epsilon));
          if (member.team_rank() == 0) {
            if (means != nullptr) means[r] = static_cast<C>(mean);
            rstds[r] = static_cast<C>(rstd);
          }
        } else {
          mean = means == nullptr ? 0.0 : static_cast<double>(means[r]);
          rstd = static_cast<double>(rstds[r]);
        }
        for (std::int64_t j = member.team_rank(); j < plan.size; j += member.team_size()) {
          const double normal = (static_cast<double>(load(x[j * plan.inner])) - mean) * rstd;
          store(y[j * plan.inner], normal * scale_at(plan, j) + bias_at(plan, j));
        }
      });
}

template <class E>
void moments(const device::Exec& exec, const NormPlan& plan) {
  using C = Compute<E>;
  for_each_team(
      "tessera::kernels::norm_moments", exec, plan.outer * plan.inner, 2,
      KOKKOS_LAMBDA(const Member& member) {
        const std::int64_t r = member.league_rank();
        const E* x = static_cast<const E*>(plan.x) + row_start(plan, r);
        const Moments m = team_moments(member, plan, x);
        C* out = static_cast<C*>(plan.moments) + 3 * r;
        if (member.team_rank() == 0) {
          out[0] = static_cast<C>(plan.size);
          out[1] = static_cast<C>(m.mean);
          out[2] = static_cast<C>(m.m2);
        }
      });
}

/// One row of operands with its statistics.
template <class E>
struct Row {
  const E* dy;
  const E* x;
  std::int64_t stride;
  double mean;
  double rstd;

  KOKKOS_INLINE_FUNCTION Row(const NormPlan& plan, std::int64_t r)
      : dy(static_cast<const E*>(plan.dy) + row_start(plan, r)),
        x(static_cast<const E*>(plan.x) + row_start(plan, r)),
        stride(plan.inner),
        mean(plan.mean == nullptr
                 ? 0.0
                 : static_cast<double>(static_cast<const Compute<E>*>(plan.mean)[r])),
        rstd(static_cast<double>(static_cast<const Compute<E>*>(plan.rstd)[r])) {}

  KOKKOS_INLINE_FUNCTION double gradient(std::int64_t j) const {
    return static_cast<double>(load(dy[j * stride]));
  }
  KOKKOS_INLINE_FUNCTION double normal(std::int64_t j) const {
    return (static_cast<double>(load(x[j * stride])) - mean) * rstd;
  }
};

struct RowSums {
  double g;
  double gx;
};

template <class E>
KOKKOS_INLINE_FUNCTION RowSums team_sums(const Member& member, const NormPlan& plan,
                                         const Row<E>& row) {
  double g = 0.0;
  double gx = 0.0;
  for (std::int64_t j = member.team_rank(); j < plan.size; j += member.team_size()) {
    const double d = row.gradient(j) * scale_at(plan, j);
    g += d;
    gx += d * row.normal(j);
  }
  const double all_g = team_sum(member, g);
  return {all_g, team_sum(member, gx)};
}

template <class E>
void backward_sums(const device::Exec& exec, const NormPlan& plan) {
  using C = Compute<E>;
  for_each_team(
      "tessera::kernels::norm_backward_sums", exec, plan.outer * plan.inner, 2,
      KOKKOS_LAMBDA(const Member& member) {
        const std::int64_t r = member.league_rank();
        const RowSums sums = team_sums(member, plan, Row<E>(plan, r));
        if (member.team_rank() == 0) {
          static_cast<C*>(plan.sums)[2 * r] = static_cast<C>(sums.g);
          static_cast<C*>(plan.sums)[2 * r + 1] = static_cast<C>(sums.gx);
        }
      });
}

template <class E>
void backward_x(const device::Exec& exec, const NormPlan& plan) {
  using C = Compute<E>;
  for_each_team(
      "tessera::kernels::norm_backward::x", exec, plan.outer * plan.inner, 2,
      KOKKOS_LAMBDA(const Member& member) {
        const std::int64_t r = member.league_rank();
        const Row<E> row(plan, r);
        RowSums sums{0.0, 0.0};
        if (plan.sums != nullptr) {
          sums.g = static_cast<double>(static_cast<const C*>(plan.sums)[2 * r]);
          sums.gx = static_cast<double>(static_cast<const C*>(plan.sums)[2 * r + 1]);
        } else {
          sums = team_sums(member, plan, row);
        }
        const double g = plan.rms ? 0.0 : sums.g / plan.whole;
        const double gx = sums.gx / plan.whole;
        E* dx = static_cast<E*>(plan.dx) + row_start(plan, r);
        for (std::int64_t j = member.team_rank(); j < plan.size; j += member.team_size()) {
          store(dx[j * row.stride],
                row.rstd * (row.gradient(j) * scale_at(plan, j) - g - row.normal(j) * gx));
        }
      });
}

/// One team for each element of dscale and dbias.
template <class E>
void backward_parameters(const device::Exec& exec, const NormPlan& plan) {
  using C = Compute<E>;
  for_each_team(
      "tessera::kernels::norm_backward::parameters", exec, plan.size, 2,
      KOKKOS_LAMBDA(const Member& member) {
        const std::int64_t j = member.league_rank();
        double dscale = 0.0;
        double dbias = 0.0;
        for (std::int64_t r = member.team_rank(); r < plan.outer * plan.inner;
             r += member.team_size()) {
          const Row<E> row(plan, r);
          dscale += row.gradient(j) * row.normal(j);
          dbias += row.gradient(j);
        }
        dscale = team_sum(member, dscale);
        dbias = team_sum(member, dbias);
        if (member.team_rank() != 0) return;
        if (plan.dscale != nullptr) static_cast<C*>(plan.dscale)[j] = static_cast<C>(dscale);
        if (plan.dbias != nullptr) static_cast<C*>(plan.dbias)[j] = static_cast<C>(dbias);
      });
}

template <class E>
void backward(const device::Exec& exec, const NormPlan& plan) {
  backward_x<E>(exec, plan);
  if (plan.dscale != nullptr || plan.dbias != nullptr) backward_parameters<E>(exec, plan);
}

}  // namespace

void norm_forward(const device::Exec& exec, const NormPlan& plan) {
  with_element(plan.element, [&](auto e) { forward<decltype(e)>(exec, plan, true); });
}

void norm_apply(const device::Exec& exec, const NormPlan& plan) {
  with_element(plan.element, [&](auto e) { forward<decltype(e)>(exec, plan, false); });
}

void norm_moments(const device::Exec& exec, const NormPlan& plan) {
  with_element(plan.element, [&](auto e) { moments<decltype(e)>(exec, plan); });
}

void norm_backward(const device::Exec& exec, const NormPlan& plan) {
  with_element(plan.element, [&](auto e) { backward<decltype(e)>(exec, plan); });
}

void norm_backward_sums(const device::Exec& exec, const NormPlan& plan) {
  with_element(plan.element, [&](auto e) { backward_sums<decltype(e)>(exec, plan); });
}

}  // namespace tessera::kernels::portable
