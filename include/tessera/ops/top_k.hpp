// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "tessera/graph/graph.hpp"

/// The largest elements along a dim. Of equal elements the one of the lower index comes first; a
/// NaN counts as larger than every number. Where the dim is cut, each rank picks among its own
/// elements, and one all_gather brings all ranks' candidates together: (value, index) pairs, not
/// the tensor.
namespace tessera::ops {

struct TopK {
  Tensor values;   ///< [x's other dims…, k], in x's dtype, falling
  Tensor indices;  ///< the same shape, i32
};

/// The k.size largest elements along `dim`, under a new dim `k` (UserError unless 1 <= k.size <=
/// the dim's size). The values' gradient goes to the elements picked.
TopK top_k(Tensor x, const std::string& dim, const Dim& k);
/// Index of the largest element along `dim`, i32, without that dim. No gradient.
Tensor argmax(Tensor x, const std::string& dim);

}  // namespace tessera::ops
