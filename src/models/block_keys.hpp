// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include "models/feed_forward_kind.hpp"
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
  schema.add("model.epsilon", c.epsilon, "added to the variance in norms").range(0, 1);
}

}  // namespace tessera::models
