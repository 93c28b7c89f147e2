// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include "models/feed_forward_kind.hpp"
#include "tessera/base/error.hpp"
#include "tessera/config/schema.hpp"

namespace tessera::models {

/// Describes the keys of a Transformer's blocks, which are the same with and without an encoder;
/// Config has a field of each name. `positions`: the kinds that the model knows.
template <class Config>
void describe_blocks(config::Schema& schema, Config& c, std::vector<std::string> positions) {
  constexpr double kHuge = 1e15;
  schema.add("model.d_model", c.d_model, "width of the residual stream").range(1, kHuge);
  schema.add("model.d_ff", c.d_ff, "hidden width of the feed-forward layers").range(1, kHuge);
  schema.add("model.d_kv", c.d_kv, "size of a head; 0: d_model / heads").range(0, kHuge);
  schema.add("model.max_length", c.max_length, "longest sequence, size of the table of positions")
      .range(1, kHuge);
  schema.add("model.norm", c.norm, "norm before each part").choices({"layer", "rms"});
  schema
      .add("model.activation", c.activation,
           "of the feed-forward layers; gelu is exact (erf), the ...glu forms are gated")
      .choices(feed_forward_names());
  schema.add("model.positions", c.positions, "how positions enter").choices(std::move(positions));
  schema.add("model.tied", c.tied, "use the embedding table as the output projection");
  schema.add("model.bias", c.bias, "biases in projections and layer norms");
  schema
      .add("model.dropout", c.dropout,
           "dropout of embeddings, attention probabilities and each part's result")
      .range(0, 0.999);
  schema
      .add("model.label_smoothing", c.label_smoothing,
           "share of the target spread over the vocabulary")
      .range(0, 0.999);
  schema.add("model.heads", c.heads, "attention heads").range(1, kHuge);
  schema
      .add("model.kv_heads", c.kv_heads,
           "key and value heads, each shared by heads / kv_heads queries; 0: heads")
      .range(0, kHuge);
  schema
      .add("model.relative_buckets", c.relative_buckets,
           "positions = relative: biases of a head by distance, half of them for one distance each")
      .range(2, 256);
  schema
      .add("model.relative_distance", c.relative_distance,
           "positions = relative: distance from which all share the last bias")
      .range(2, 1 << 30);
  schema
      .add("model.window", c.window,
           "positions that self-attention looks back (an encoder's ahead, too), the own one "
           "included; 0: all")
      .range(0, kHuge);
  schema
      .add("model.attention", c.attention,
           "how keys come to queries if the layout cuts length: whole to every rank, or past all "
           "ranks in a ring, which takes less memory; auto gathers on up to 4 ranks")
      .choices({"auto", "gather", "ring"});
  schema.add("model.epsilon", c.epsilon, "added to the variance in norms").range(0, 1);
}

/// What the keys of a Transformer's blocks have to do with each other.
template <class Config>
void validate_blocks(const Config& c) {
  check_user(c.d_kv > 0 || c.d_model % c.heads == 0, "model.d_model = ", c.d_model,
             " is not a multiple of model.heads = ", c.heads,
             "; change one of them or set model.d_kv");
  check_user(c.heads % c.key_heads() == 0, "model.heads = ", c.heads,
             " is not a multiple of model.kv_heads = ", c.kv_heads);
  check_user(c.positions != "relative" || c.relative_distance >= c.relative_buckets,
             "model.relative_distance = ", c.relative_distance,
             " is less than model.relative_buckets = ", c.relative_buckets,
             "; it must be at least as large");
  check_user(c.positions != "sinusoid" || c.d_model % 2 == 0,
             "model.positions = sinusoid needs an even model.d_model, found ", c.d_model);
}

}  // namespace tessera::models
