// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "tessera/graph/graph.hpp"

/// Softmax over a dim, whole or cut. Where it is cut, no element of x moves: each row's maximum and
/// then its sum are reduced over the ranks (two all_reduces of x's size without the dim).
namespace tessera::ops {

/// log sum exp(x) over the dims that `output` lacks, without overflow; f32 of bf16. A row of -inf
/// alone gives -inf, as does an empty one.
Tensor reduce_logsumexp(Tensor x, const Shape& output);
/// exp(x) / sum exp(x) over `dim`, in x's dtype.
Tensor softmax(Tensor x, const std::string& dim);
/// x - log sum exp(x) over `dim`, in x's dtype.
Tensor log_softmax(Tensor x, const std::string& dim);

}  // namespace tessera::ops
