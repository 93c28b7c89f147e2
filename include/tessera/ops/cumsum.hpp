// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "tessera/graph/graph.hpp"

namespace tessera::ops {

struct CumsumOptions {
  bool exclusive = false;  ///< without the element itself
  bool reverse = false;    ///< from the dim's end
};

/// Running sums along `dim`, in x's dtype (i32 or floating), summed in f64 and rounded once. Where
/// the dim is cut, each rank scans its own part after one all_gather of the parts' totals.
Tensor cumsum(Tensor x, const std::string& dim, CumsumOptions options = {});

}  // namespace tessera::ops
