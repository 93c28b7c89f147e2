// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <math.h>

#include "tessera/base/function.hpp"

namespace tessera::kernels {

/// cos(2 pi u) for u in (0, 1). The distance to the nearest quarter turn is exact, so the result
/// keeps its relative precision near its zeros.
TESSERA_FUNCTION double turn_cosine(double u) {
  const int quarter = static_cast<int>(4.0 * u + 0.5);
  const double r = 6.283185307179586 * (u - 0.25 * quarter);
  const double value = quarter % 2 == 0 ? ::cos(r) : ::sin(r);
  return quarter == 1 || quarter == 2 ? -value : value;
}

}  // namespace tessera::kernels
