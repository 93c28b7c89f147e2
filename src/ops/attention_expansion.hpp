// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <span>

#include "tessera/base/attributes.hpp"
#include "tessera/graph/graph.hpp"

namespace tessera::ops {

/// Attention in primitives, with the length x memory matrix of scores in memory. `q`, `k`, `v` and
/// `bias` (or empty) as in ops/attention.hpp; `segments`: the queries' and the keys', or none.
Tensor expand_attention(Tensor q, Tensor k, Tensor v, Tensor bias, std::span<const Tensor> segments,
                        const Attributes& attributes);

}  // namespace tessera::ops
