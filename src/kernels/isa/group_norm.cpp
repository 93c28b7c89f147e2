// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/isa/group_norm.hpp"

#include "kernels/isa/element.hpp"
#include "kernels/pointwise_plan.hpp"

namespace tessera::kernels::isa::TESSERA_ISA {
namespace {

/// Elements that are summed at a time, in rows: they stay in L1 between two passes.
constexpr int64_t kChunkElements = 4096;

TESSERA_LANE int64_t rows_of_chunk(int64_t line) {
  return line >= kChunkElements || line == 0 ? 1 : kChunkElements / line;
}

/// Whether row `row` of x [outer before, line] counts in statistics.
TESSERA_LANE bool counts(const GroupNormPlan& plan, int64_t row) {
  return plan.row_weights == nullptr || plan.row_weights[row / (plan.before / plan.masked)] != 0;
}

/// From row `begin` of [outer before] on, the next rows in a row that count, before `end`.
struct Run {
  int64_t begin;
  int64_t end;
};
TESSERA_LANE Run next_run(const GroupNormPlan& plan, int64_t begin, int64_t end) {
  if (plan.row_weights == nullptr || begin == end) return {begin, end};
  const int64_t span = plan.before / plan.masked;
  while (begin < end && !counts(plan, begin)) begin += span;
  int64_t last = begin;
  while (last < end && counts(plan, last)) last += span;
  return {begin, last};
}

/// Sums of a line's elements that belong to one group, in double.
template <class C>
TESSERA_LANE double fold(const C* line, int64_t after, int64_t group) {
  double sum = 0;
  for (int64_t r = 0; r < after; ++r) sum += static_cast<double>(line[group * after + r]);
  return sum;
}

/// Adds mean and M2 of a chunk of rows, in two passes, to those of `seen` elements: Chan, Golub,
/// LeVeque 1983, "Algorithms for computing the sample variance".
template <class E>
void add_chunk(const GroupNormPlan& plan, int64_t row, int64_t rows, double& seen) {
  using C = Compute<E>;
  const int64_t line = plan.line(), after = plan.after;
  C* sum = static_cast<C*>(plan.lines);
  C* mean = sum + line;
  double* means = plan.totals;
  double* m2s = means + line;
  const E* x = static_cast<const E*>(plan.x) + row * line;
  const double count = static_cast<double>(rows * after);
  for (int64_t j = 0; j < line; ++j) sum[j] = 0;
  for (int64_t i = 0; i < rows; ++i) {
#pragma GCC ivdep
    for (int64_t j = 0; j < line; ++j) sum[j] += load(x[i * line + j]);
  }
  for (int64_t g = 0; g < plan.kept; ++g) {
    const C center = static_cast<C>(fold(sum, after, g) / (count > 0 ? count : 1));
    for (int64_t r = 0; r < after; ++r) mean[g * after + r] = center;
  }
  for (int64_t j = 0; j < line; ++j) sum[j] = 0;
  for (int64_t i = 0; i < rows; ++i) {
#pragma GCC ivdep
    for (int64_t j = 0; j < line; ++j) {
      const C d = load(x[i * line + j]) - mean[j];
      sum[j] += d * d;
    }
  }
  if (count == 0) return;
  for (int64_t g = 0; g < plan.kept; ++g) {
    const double apart = static_cast<double>(mean[g * after]) - means[g];
    m2s[g] += fold(sum, after, g) + apart * apart * seen * count / (seen + count);
    means[g] += apart * count / (seen + count);
  }
  seen += count;
}

/// Chunks lie within rows that count.
template <class E>
void moments(const GroupNormPlan& plan) {
  using C = Compute<E>;
  const int64_t chunk = rows_of_chunk(plan.line());
  double* means = plan.totals;
  double* m2s = means + plan.line();
  for (int64_t o = 0; o < plan.outer; ++o) {
    for (int64_t g = 0; g < plan.kept; ++g) means[g] = m2s[g] = 0;
    double seen = 0;
    const int64_t end = (o + 1) * plan.before;
    for (Run run = next_run(plan, o * plan.before, end); run.begin < run.end;
         run = next_run(plan, run.end, end))
      for (int64_t row = run.begin; row < run.end; row += chunk)
        add_chunk<E>(plan, row, run.end - row < chunk ? run.end - row : chunk, seen);
    C* out = static_cast<C*>(plan.moments) + 3 * o * plan.kept;
    for (int64_t g = 0; g < plan.kept; ++g) {
      out[3 * g] = static_cast<C>(seen);
      out[3 * g + 1] = static_cast<C>(means[g]);
      out[3 * g + 2] = static_cast<C>(m2s[g]);
    }
  }
}

/// Mean of each element of a line, and 1 / standard deviation.
template <class C>
void set_statistics(const GroupNormPlan& plan, int64_t o, C* mean, C* rstd) {
  for (int64_t g = 0; g < plan.kept; ++g) {
    const int64_t at = o * plan.kept + g;
    const C m = static_cast<const C*>(plan.mean)[at];
    const double variance = static_cast<double>(static_cast<const C*>(plan.variance)[at]);
    const C r = static_cast<C>(1.0 / __builtin_sqrt(variance + plan.epsilon));
    for (int64_t k = 0; k < plan.after; ++k) {
      mean[g * plan.after + k] = m;
      rstd[g * plan.after + k] = r;
    }
  }
}

template <class E>
void backward_sums(const GroupNormPlan& plan) {
  using C = Compute<E>;
  const int64_t line = plan.line(), chunk = rows_of_chunk(line);
  const C* scale = static_cast<const C*>(plan.scale);
  C* mean = static_cast<C*>(plan.lines);
  C* rstd = mean + line;
  C* part = rstd + line;
  C* part_x = part + line;
  double* sum = plan.totals;
  double* sum_x = sum + line;
  double* dbias = sum_x + line;
  double* dscale = dbias + line;
  for (int64_t j = 0; j < line; ++j) dbias[j] = dscale[j] = 0;
  for (int64_t o = 0; o < plan.outer; ++o) {
    set_statistics(plan, o, mean, rstd);
    for (int64_t j = 0; j < line; ++j) sum[j] = sum_x[j] = 0;
    for (int64_t row = 0; row < plan.before; row += chunk) {
      const int64_t rows = plan.before - row < chunk ? plan.before - row : chunk;
      for (int64_t j = 0; j < line; ++j) part[j] = part_x[j] = 0;
      for (int64_t i = 0; i < rows; ++i) {
        const int64_t at = (o * plan.before + row + i) * line;
        const E* x = static_cast<const E*>(plan.x) + at;
        const E* dy = static_cast<const E*>(plan.dy) + at;
#pragma GCC ivdep
        for (int64_t j = 0; j < line; ++j) {
          const C d = load(dy[j]);
          part[j] += d;
          part_x[j] += d * ((load(x[j]) - mean[j]) * rstd[j]);
        }
      }
      for (int64_t j = 0; j < line; ++j) {
        sum[j] += static_cast<double>(part[j]);
        sum_x[j] += static_cast<double>(part_x[j]);
      }
    }
    C* out = static_cast<C*>(plan.sums) + 2 * o * plan.kept;
    for (int64_t g = 0; g < plan.kept; ++g) {
      double of_dy = 0, of_x = 0;
      for (int64_t j = g * plan.after; j < (g + 1) * plan.after; ++j) {
        of_dy += sum[j] * static_cast<double>(scale[j]);
        of_x += sum_x[j] * static_cast<double>(scale[j]);
        dbias[j] += sum[j];
        dscale[j] += sum_x[j];
      }
      out[2 * g] = static_cast<C>(of_dy);
      out[2 * g + 1] = static_cast<C>(of_x);
    }
  }
  for (int64_t j = 0; j < line; ++j) {
    if (plan.dscale != nullptr) static_cast<C*>(plan.dscale)[j] = static_cast<C>(dscale[j]);
    if (plan.dbias != nullptr) static_cast<C*>(plan.dbias)[j] = static_cast<C>(dbias[j]);
  }
}

/// dx = rstd (scale dy - sum / n - normal sum_x / n); of a row that does not count rstd scale dy.
template <class E>
void backward_apply(const GroupNormPlan& plan) {
  using C = Compute<E>;
  const int64_t line = plan.line();
  const C* scale = static_cast<const C*>(plan.scale);
  C* mean = static_cast<C*>(plan.lines);
  C* rstd = mean + line;
  C* shift = rstd + line;
  C* slope = shift + line;
  for (int64_t o = 0; o < plan.outer; ++o) {
    set_statistics(plan, o, mean, rstd);
    for (int64_t j = 0; j < line; ++j) {
      const int64_t group = o * plan.kept + j / plan.after;
      const C* sums = static_cast<const C*>(plan.sums) + 2 * group;
      const double n = plan.count == nullptr
                           ? plan.whole
                           : static_cast<double>(static_cast<const C*>(plan.count)[group]);
      shift[j] = static_cast<C>(static_cast<double>(sums[0]) / n) * rstd[j];
      slope[j] = static_cast<C>(static_cast<double>(sums[1]) / n) * rstd[j] * rstd[j];
      rstd[j] *= scale[j];
    }
    for (int64_t row = o * plan.before; row < (o + 1) * plan.before; ++row) {
      const E* x = static_cast<const E*>(plan.x) + row * line;
      const E* dy = static_cast<const E*>(plan.dy) + row * line;
      E* dx = static_cast<E*>(plan.y) + row * line;
      if (!counts(plan, row)) {
        for (int64_t j = 0; j < line; ++j) store(dx[j], load(dy[j]) * rstd[j]);
        continue;
      }
#pragma GCC ivdep
      for (int64_t j = 0; j < line; ++j) {
        store(dx[j], load(dy[j]) * rstd[j] - shift[j] - (load(x[j]) - mean[j]) * slope[j]);
      }
    }
  }
}

/// Calls function<E>(plan) for the plan's element type.
#define TESSERA_GROUP_NORM(name, function)                          \
  void name(const GroupNormPlan& plan) {                            \
    if (plan.element == kElementF64) return function<double>(plan); \
    if (plan.element == kElementBf16) return function<Bf16>(plan);  \
    function<float>(plan);                                          \
  }

}  // namespace

TESSERA_GROUP_NORM(group_norm_moments, moments)
TESSERA_GROUP_NORM(group_norm_backward_sums, backward_sums)
TESSERA_GROUP_NORM(group_norm_backward_apply, backward_apply)
#undef TESSERA_GROUP_NORM

}  // namespace tessera::kernels::isa::TESSERA_ISA
