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

  /// Keys that a query sees on each side, itself included: positions in (i - window, i + window),
  /// up to i if causal. 0: all.
  std::int64_t window = 0;
  /// i32 [batch, length] and [batch, memory], both or none: a query sees the keys of its own id,
  /// and those of id 0 see nothing and are seen by none. So several examples share a row, or its
  /// end is padding. Without `key_segments` the keys have the queries'.
  Tensor query_segments{};
  Tensor key_segments{};
  /// Learned bias of the scores by distance, [heads, buckets] or [heads, group, buckets], in f32
  /// (f64 for f64): half of the buckets for one distance each, the others ever wider up to
  /// `max_distance`, the last for all beyond; without `causal` half of them for keys behind the
  /// query (Raffel et al., "Exploring the Limits of Transfer Learning", 2020).
  Tensor relative_bias{};
  std::int64_t max_distance = 128;

  /// How keys and values that are cut along their length as the queries are come to them: `gather`:
  /// whole to every rank; `ring`: one rank's part at a time, so that memory falls with the ranks;
  /// `auto`: gather up to 4 ranks, where it moves the fewest bytes. With a window only what it
  /// reaches is exchanged with the neighbours, unless `gather`.
  std::string keys = "auto";
};

/// softmax(scale q k^T + bias) v without a length x memory matrix in memory (Dao et al.,
/// "FlashAttention", 2022). q [batch, length, heads, d] or [batch, length, heads, group, d]: the
/// queries of a group share a key head. k, v [batch, memory, heads, d]. Dims are told by their
/// order, their names are free; batch and heads bear the same names in all, and memory may bear the
/// name of length. All three have one dtype. Result: q's shape; zeros for a query that sees no key.
/// May be cut along batch, heads, group or length.
Tensor attention(Tensor q, Tensor k, Tensor v, const AttentionOptions& options);

}  // namespace tessera::ops
