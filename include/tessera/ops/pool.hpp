// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/graph/graph.hpp"
#include "tessera/ops/conv.hpp"

namespace tessera::ops {

/// One dim along which windows move: output i covers the inputs [i * stride - before, … + window)
/// that exist. `before` and `after` are less than the window, so none is empty.
struct PoolDim {
  std::string dim;
  std::int64_t window = 1;
  std::int64_t stride = 1;
  std::int64_t before = 0;
  std::int64_t after = 0;
};

/// The dim's padding for x of size `n`.
PoolDim padded(PoolDim dim, Padding padding, std::int64_t n);

/// Largest element of each window over 1 to 3 dims of x, for all its other dims separately; the
/// dims keep their names. The gradient goes to a window's first maximum. A NaN is larger than all.
/// UserError if dims or sizes do not fit. Any dim may be cut; along one of `space`, neighbours
/// exchange what windows reach across borders.
Tensor max_pool(Tensor x, const std::vector<PoolDim>& space);
/// Mean of each window's elements; those outside x do not count.
Tensor average_pool(Tensor x, const std::vector<PoolDim>& space);

/// The same with one padding for all dims.
Tensor max_pool(Tensor x, std::vector<PoolDim> space, Padding padding);
Tensor average_pool(Tensor x, std::vector<PoolDim> space, Padding padding);

}  // namespace tessera::ops
