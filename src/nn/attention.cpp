// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/ops/attention.hpp"
#include "tessera/nn/layers.hpp"
#include "tessera/nn/weights.hpp"
#include "tessera/ops/einsum.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/positions.hpp"

namespace tessera::nn {

namespace {

std::vector<Dim> query_dims(const SelfAttentionOptions& options) {
  std::vector<Dim> dims{{"heads", options.heads}};
  if (options.group > 1) dims.push_back({"group", options.group});
  dims.push_back({"d_kv", options.d_kv});
  return dims;
}

/// The heads' results brought together, and the bias apart.
Branch output(Tensor mixed, const Dim& out, const SelfAttentionOptions& options) {
  std::vector<std::string> summed;
  for (const auto& dim : query_dims(options)) summed.push_back(dim.name);
  const Tensor value = dense(mixed, summed, {out}, {.name = "output", .gain = options.output_gain});
  const Tensor bias = options.bias ? weight(mixed.graph(), "output_bias", Shape{out}, mixed.dtype(),
                                            Initializer::constant(0), false)
                                   : Tensor();
  return {value, bias};
}

}  // namespace

Tensor relative_bias(Graph& graph, const SelfAttentionOptions& options, std::int64_t buckets,
                     DType dtype) {
  std::vector<Dim> dims = query_dims(options);
  dims.back() = {"buckets", buckets};
  return weight(graph, "relative_bias", Shape(dims), dtype, Initializer::constant(0), false);
}

Branch cross_attention(Tensor x, Tensor memory, const std::string& axis,
                       const SelfAttentionOptions& options) {
  const Dim heads{"heads", options.heads}, depth{"d_kv", options.d_kv};
  const auto dense_options = [&](const char* name) {
    return DenseOptions{.name = name, .bias = options.bias};
  };
  Tensor q = dense(x, {axis}, query_dims(options), dense_options("query"));
  Tensor k = dense(memory, {axis}, {heads, depth}, dense_options("key"));
  const Tensor v = dense(memory, {axis}, {heads, depth}, dense_options("value"));
  if (options.rotary) {
    q = ops::rotary(q, x.shape()[1].name);
    k = ops::rotary(k, memory.shape()[1].name);
  }
  const Tensor mixed = ops::attention(q, k, v,
                                      {.causal = options.causal,
                                       .dropout = options.dropout,
                                       .seed = options.seed,
                                       .batch_total = options.total_rows,
                                       .window = options.window,
                                       .query_segments = options.query_segments,
                                       .key_segments = options.key_segments,
                                       .relative_bias = options.relative_bias,
                                       .max_distance = options.max_distance});
  return output(mixed, x.shape()[x.shape().index_of(axis)], options);
}

Branch self_attention(Tensor x, const std::string& axis, const SelfAttentionOptions& options) {
  return cross_attention(x, x, axis, options);
}

}  // namespace tessera::nn
