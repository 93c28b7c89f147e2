// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "tessera/graph/graph.hpp"

/// Further activations, as code of one pointwise step: local under every layout. (relu, gelu, silu
/// and sigmoid have instructions of their own: ops/elementwise.hpp.)
namespace tessera::ops {

/// x where x > 0, else slope x.
Tensor leaky_relu(Tensor x, double slope = 0.2);
/// x where x > 0, else alpha (e^x - 1), accurate near 0 (Clevert, Unterthiner and Hochreiter, "Fast
/// and Accurate Deep Network Learning by Exponential Linear Units").
Tensor elu(Tensor x, double alpha = 1);
/// 1.0507 elu(x, 1.6733) (Klambauer et al., "Self-Normalizing Neural Networks").
Tensor selu(Tensor x);
/// log(1 + e^x), without overflow and accurate for x far below 0; its gradient is sigmoid(x).
Tensor softplus(Tensor x);

}  // namespace tessera::ops
