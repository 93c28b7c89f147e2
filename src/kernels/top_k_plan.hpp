// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "tessera/base/function.hpp"

/// Operands of `top_k_pairs` and `top_k_merge`, and the order in which both variants rank.
namespace tessera::kernels {

struct TopKPlan {
  std::int64_t outer, n, inner;  ///< x is [outer, n, inner]; rows are (outer, inner)
  std::int64_t first;            ///< global index of the first of the n
  std::int64_t k;
  std::int64_t parts;  ///< of the pairs [parts, rows, k, 2]
  double* pairs;
};

/// Whether element `a` of index i comes before `b` of index j: larger first, NaN before all
/// numbers, then the lower index.
TESSERA_FUNCTION bool ranks_before(double a, double i, double b, double j) {
  const bool a_nan = a != a, b_nan = b != b;
  if (a_nan || b_nan) return a_nan && (!b_nan || i < j);
  return a > b || (a == b && i < j);
}

/// The best k so far, best first: room for k (value, index) pairs that none comes after.
TESSERA_FUNCTION void clear_best(double* best, std::int64_t k) {
  for (std::int64_t i = 0; i < k; ++i) {
    best[2 * i] = -__builtin_inf();
    best[2 * i + 1] = __builtin_inf();
  }
}

TESSERA_FUNCTION void insert_best(double* best, std::int64_t k, double value, double index) {
  if (!ranks_before(value, index, best[2 * k - 2], best[2 * k - 1])) return;
  std::int64_t i = k - 1;
  for (; i > 0 && ranks_before(value, index, best[2 * i - 2], best[2 * i - 1]); --i) {
    best[2 * i] = best[2 * i - 2];
    best[2 * i + 1] = best[2 * i - 1];
  }
  best[2 * i] = value;
  best[2 * i + 1] = index;
}

/// One row of all parts, inserted into the row of the first part.
TESSERA_FUNCTION double* merge_row(const TopKPlan& plan, std::int64_t rows, std::int64_t row) {
  double* best = plan.pairs + row * plan.k * 2;
  for (std::int64_t p = 1; p < plan.parts; ++p) {
    const double* other = plan.pairs + (p * rows + row) * plan.k * 2;
    for (std::int64_t i = 0; i < plan.k; ++i)
      insert_best(best, plan.k, other[2 * i], other[2 * i + 1]);
  }
  return best;
}

}  // namespace tessera::kernels
