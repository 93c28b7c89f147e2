// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>

#include "tessera/graph/graph.hpp"

namespace tessera::ops {

struct AttentionOptions {
  /// A query at position i sees keys at positions <= i, by global positions.
  bool causal = true;
  /// Factor of the scores; 0: 1 / sqrt(d).
  double scale = 0;
  /// Dropout of the probabilities: rate, the run's seed, the stream's name under the open scopes,
  /// and the rows of the whole step (all micro-batches).
  double dropout = 0;
  std::uint64_t seed = 0;
  std::string name = "attention_dropout";
  std::int64_t batch_total = 0;
};

/// softmax(scale q k^T) v without a length x memory matrix in memory (Dao et al.,
/// "FlashAttention"). q [batch, length, heads, d] or [batch, length, heads, group, d]: the queries
/// of a group share a key head. k, v [batch, memory, heads, d]. Dims are told by their order, their
/// names are free; batch and heads bear the same names in all. Result: q's shape. May be cut along
/// batch, heads, group or length; keys and values are whole along memory.
Tensor attention(Tensor q, Tensor k, Tensor v, const AttentionOptions& options);

}  // namespace tessera::ops
