// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "tessera/graph/graph.hpp"

/// Comparisons and logic with broadcast by name, beside less and equal of ops/elementwise.hpp.
/// Truth is 1 or 0 in the operands' common dtype (result_dtype); any number but 0 counts as true. A
/// comparison with a NaN is false, but for not_equal. Local under every layout, and without
/// gradients.
namespace tessera::ops {

Tensor greater(Tensor a, Tensor b);
Tensor less_equal(Tensor a, Tensor b);
Tensor greater_equal(Tensor a, Tensor b);
Tensor not_equal(Tensor a, Tensor b);

Tensor logical_and(Tensor a, Tensor b);
Tensor logical_or(Tensor a, Tensor b);
Tensor logical_not(Tensor x);

}  // namespace tessera::ops
