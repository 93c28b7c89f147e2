// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/isa/norm.hpp"

#include "kernels/isa/lanes.hpp"
#include "kernels/pointwise_plan.hpp"

namespace tessera::kernels::isa::TESSERA_ISA {
namespace {

/// Rows are added up in chunks of this many before they go into double.
constexpr int64_t kRowsOfChunk = 32;

/// Elements of a row lie side by side (Apart false) or `stride` apart.
template <bool Apart>
TESSERA_LANE int64_t place(int64_t j, int64_t stride) {
  return Apart ? j * stride : j;
}

/// Where row `r` of x begins.
TESSERA_LANE int64_t row_start(const NormPlan& plan, int64_t r) {
  return r / plan.inner * plan.size * plan.inner + r % plan.inner;
}

template <class C>
struct Moments {
  C mean;
  C m2;
};

/// Mean and sum of squared deviations, in two passes; about 0 for rms.
template <bool Apart, class E>
Moments<Compute<E>> moments_of(const NormPlan& plan, const E* x) {
  using C = Compute<E>;
  const int64_t n = plan.size;
  const int64_t stride = plan.inner;
  C mean = 0;
  if (!plan.rms && n > 0) {
    const double sum = sum_lanes<C>(n, [=](int64_t j) { return load(x[place<Apart>(j, stride)]); });
    mean = static_cast<C>(sum / static_cast<double>(n));
  }
  const double m2 = sum_lanes<C>(n, [=](int64_t j) {
    const C d = load(x[place<Apart>(j, stride)]) - mean;
    return d * d;
  });
  return {mean, static_cast<C>(m2)};
}

template <bool Apart, class E>
void apply_row(const NormPlan& plan, const E* x, E* y, Compute<E> mean, Compute<E> rstd) {
  using C = Compute<E>;
  const C* scale = static_cast<const C*>(plan.scale);
  const C* bias = static_cast<const C*>(plan.bias);
  const int64_t stride = plan.inner;
#pragma GCC ivdep
  for (int64_t j = 0; j < plan.size; ++j) {
    const int64_t at = place<Apart>(j, stride);
    store(y[at], (load(x[at]) - mean) * rstd * scale[j] + bias[j]);
  }
}

template <bool Apart, class E>
void forward(const NormPlan& plan, bool with_statistics) {
  using C = Compute<E>;
  const E* x = static_cast<const E*>(plan.x);
  E* y = static_cast<E*>(plan.y);
  C* mean = static_cast<C*>(plan.mean);
  C* rstd = static_cast<C*>(plan.rstd);
  for (int64_t r = 0; r < plan.outer * plan.inner; ++r) {
    const int64_t at = row_start(plan, r);
    if (with_statistics) {
      const Moments<C> m = moments_of<Apart>(plan, x + at);
      const double variance = plan.size > 0 ? m.m2 / static_cast<double>(plan.size) : 0.0;
      if (mean != nullptr) mean[r] = m.mean;
      rstd[r] = static_cast<C>(1.0 / __builtin_sqrt(variance + plan.epsilon));
    }
    apply_row<Apart>(plan, x + at, y + at, mean == nullptr ? C(0) : mean[r], rstd[r]);
  }
}

template <bool Apart, class E>
void moments(const NormPlan& plan) {
  using C = Compute<E>;
  const E* x = static_cast<const E*>(plan.x);
  C* out = static_cast<C*>(plan.moments);
  for (int64_t r = 0; r < plan.outer * plan.inner; ++r) {
    const Moments<C> m = moments_of<Apart>(plan, x + row_start(plan, r));
    out[3 * r] = static_cast<C>(plan.size);
    out[3 * r + 1] = m.mean;
    out[3 * r + 2] = m.m2;
  }
}

template <class C>
struct RowSums {
  C g;   ///< sum of scale dy
  C gx;  ///< sum of scale dy (x - mean) rstd
};

template <bool Apart, class E>
RowSums<Compute<E>> sums_of(const NormPlan& plan, const E* dy, const E* x, Compute<E> mean,
                            Compute<E> rstd) {
  using C = Compute<E>;
  const C* scale = static_cast<const C*>(plan.scale);
  const int64_t stride = plan.inner;
  const double g = sum_lanes<C>(
      plan.size, [=](int64_t j) { return load(dy[place<Apart>(j, stride)]) * scale[j]; });
  const double gx = sum_lanes<C>(plan.size, [=](int64_t j) {
    const int64_t at = place<Apart>(j, stride);
    return load(dy[at]) * scale[j] * ((load(x[at]) - mean) * rstd);
  });
  return {static_cast<C>(g), static_cast<C>(gx)};
}

template <bool Apart, class E>
void backward_sums(const NormPlan& plan) {
  using C = Compute<E>;
  const C* mean = static_cast<const C*>(plan.mean);
  const C* rstd = static_cast<const C*>(plan.rstd);
  C* out = static_cast<C*>(plan.sums);
  for (int64_t r = 0; r < plan.outer * plan.inner; ++r) {
    const int64_t at = row_start(plan, r);
    const RowSums<C> s = sums_of<Apart>(plan, static_cast<const E*>(plan.dy) + at,
                                        static_cast<const E*>(plan.x) + at,
                                        mean == nullptr ? C(0) : mean[r], rstd[r]);
    out[2 * r] = s.g;
    out[2 * r + 1] = s.gx;
  }
}

/// dx of one row, and its share of dscale and dbias.
template <bool Apart, class E>
void backward_row(const NormPlan& plan, const E* dy, const E* x, E* dx, Compute<E> mean,
                  Compute<E> rstd, RowSums<Compute<E>> sums) {
  using C = Compute<E>;
  const C* scale = static_cast<const C*>(plan.scale);
  C* dscale = static_cast<C*>(plan.chunk);
  C* dbias = dscale + plan.size;
  const int64_t stride = plan.inner;
  const C g = plan.rms ? C(0) : static_cast<C>(sums.g / plan.whole);
  const C gx = static_cast<C>(sums.gx / plan.whole);
#pragma GCC ivdep
  for (int64_t j = 0; j < plan.size; ++j) {
    const int64_t at = place<Apart>(j, stride);
    const C d = load(dy[at]);
    const C normal = (load(x[at]) - mean) * rstd;
    dscale[j] += d * normal;
    dbias[j] += d;
    store(dx[at], rstd * (d * scale[j] - g - normal * gx));
  }
}

template <class C>
void flush(const NormPlan& plan) {
  C* chunk = static_cast<C*>(plan.chunk);
  for (int64_t j = 0; j < 2 * plan.size; ++j) {
    plan.total[j] += static_cast<double>(chunk[j]);
    chunk[j] = 0;
  }
}

template <bool Apart, class E>
void backward(const NormPlan& plan) {
  using C = Compute<E>;
  const C* mean = static_cast<const C*>(plan.mean);
  const C* rstd = static_cast<const C*>(plan.rstd);
  const C* sums = static_cast<const C*>(plan.sums);
  const int64_t rows = plan.outer * plan.inner;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t at = row_start(plan, r);
    const E* dy = static_cast<const E*>(plan.dy) + at;
    const E* x = static_cast<const E*>(plan.x) + at;
    const C m = mean == nullptr ? C(0) : mean[r];
    RowSums<C> s;
    if (sums != nullptr) {
      s = {sums[2 * r], sums[2 * r + 1]};
    } else {
      s = sums_of<Apart>(plan, dy, x, m, rstd[r]);
    }
    backward_row<Apart>(plan, dy, x, static_cast<E*>(plan.dx) + at, m, rstd[r], s);
    if (r % kRowsOfChunk == kRowsOfChunk - 1) flush<C>(plan);
  }
  flush<C>(plan);
  for (int64_t j = 0; j < plan.size; ++j) {
    if (plan.dscale != nullptr) static_cast<C*>(plan.dscale)[j] = static_cast<C>(plan.total[j]);
    if (plan.dbias != nullptr) {
      static_cast<C*>(plan.dbias)[j] = static_cast<C>(plan.total[plan.size + j]);
    }
  }
}

/// f.template of<Apart, E>() for the plan's element type and the rows' layout.
template <class Function>
void dispatch(const NormPlan& plan, const Function& f) {
  const bool apart = plan.inner != 1;
  switch (plan.element) {
    case kElementF64:
      return apart ? f.template of<true, double>(plan) : f.template of<false, double>(plan);
    case kElementBf16:
      return apart ? f.template of<true, Bf16>(plan) : f.template of<false, Bf16>(plan);
    default:
      return apart ? f.template of<true, float>(plan) : f.template of<false, float>(plan);
  }
}

#define TESSERA_NORM_FUNCTION(Name, call) \
  struct Name {                           \
    template <bool Apart, class E>        \
    void of(const NormPlan& plan) const { \
      call;                               \
    }                                     \
  };
TESSERA_NORM_FUNCTION(Forward, (forward<Apart, E>(plan, true)))
TESSERA_NORM_FUNCTION(Apply, (forward<Apart, E>(plan, false)))
TESSERA_NORM_FUNCTION(FindMoments, (moments<Apart, E>(plan)))
TESSERA_NORM_FUNCTION(Backward, (backward<Apart, E>(plan)))
TESSERA_NORM_FUNCTION(BackwardSums, (backward_sums<Apart, E>(plan)))
#undef TESSERA_NORM_FUNCTION

}  // namespace

void norm_forward(const NormPlan& plan) {
  dispatch(plan, Forward());
}
void norm_apply(const NormPlan& plan) {
  dispatch(plan, Apply());
}
void norm_moments(const NormPlan& plan) {
  dispatch(plan, FindMoments());
}
void norm_backward(const NormPlan& plan) {
  dispatch(plan, Backward());
}
void norm_backward_sums(const NormPlan& plan) {
  dispatch(plan, BackwardSums());
}

}  // namespace tessera::kernels::isa::TESSERA_ISA
