// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "tessera/base/function.hpp"

/// Operands of `scan_total` and `scan`: plain data for both variants.
namespace tessera::kernels {

struct ScanPlan {
  std::int64_t outer, n, inner;  ///< x is [outer, n, inner]
  bool exclusive;
  bool reverse;
  const double* totals;  ///< [parts, outer, inner] of all ranks, or null: the dim is whole
  std::int64_t part;     ///< which of them is this rank's
  std::int64_t parts;
};

/// What lies before this rank's part of column c = (outer, inner): parts in the order of the scan.
TESSERA_FUNCTION double carry_of(const ScanPlan& plan, std::int64_t c) {
  double sum = 0;
  if (plan.totals == nullptr) return sum;
  const std::int64_t columns = plan.outer * plan.inner;
  if (plan.reverse) {
    for (std::int64_t p = plan.parts - 1; p > plan.part; --p) sum += plan.totals[p * columns + c];
  } else {
    for (std::int64_t p = 0; p < plan.part; ++p) sum += plan.totals[p * columns + c];
  }
  return sum;
}

}  // namespace tessera::kernels
