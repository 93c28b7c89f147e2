// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace tessera::test {

/// The larger of two differences; infinite if the second is not a number, which std::max passes by.
inline double worse(double worst, double difference) {
  return std::isnan(difference) ? INFINITY : std::max(worst, difference);
}

/// The largest difference of two lists, relative to 1 + |expected|; infinite if their sizes differ.
inline double apart(const std::vector<double>& found, const std::vector<double>& expected) {
  if (found.size() != expected.size()) return INFINITY;
  double worst = 0;
  for (std::size_t i = 0; i < found.size(); ++i)
    worst = worse(worst, std::abs(found[i] - expected[i]) / (1 + std::abs(expected[i])));
  return worst;
}

}  // namespace tessera::test
