// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/ops/attention.hpp"
#include "tessera/nn/layers.hpp"
#include "tessera/nn/weights.hpp"
#include "tessera/ops/einsum.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/positions.hpp"
#include "tessera/ops/shape_ops.hpp"

namespace tessera::nn {

namespace {

Tensor turned(Tensor x, const Caching& caching) {
  return caching.is_step() ? ops::rotary_at(x, kPositionFeed) : ops::rotary(x, "length");
}

/// Causal attention of all positions to each other.
Tensor attend_to_all(Tensor q, Tensor k, Tensor v, const SelfAttentionOptions& options) {
  if (options.caching.phase == Caching::Phase::fill) {
    fill_cache("key_cache", ops::rename(k, "length", "memory"), "memory", options.caching);
    fill_cache("value_cache", ops::rename(v, "length", "memory"), "memory", options.caching);
  }
  return ops::attention(q, k, v,
                        {.causal = true,
                         .dropout = options.dropout,
                         .seed = options.seed,
                         .batch_total = options.total_rows});
}

/// Attention of one position to itself and all before it.
Tensor attend_to_cache(Tensor q, Tensor k, Tensor v, const Caching& caching) {
  const Tensor keys = extend_cache("key_cache", k, "memory", caching);
  const Tensor values = extend_cache("value_cache", v, "memory", caching);
  const Tensor visible =
      visible_so_far(q.graph(), {"memory", caching.length}, weight_dtype(q.dtype()));
  return attend(q, keys, values, "memory", visible);
}

}  // namespace

Branch self_attention(Tensor x, const std::string& axis, const SelfAttentionOptions& options) {
  const Dim heads{"heads", options.heads}, depth{"d_kv", options.d_kv};
  std::vector<Dim> query_dims{heads};
  if (options.group > 1) query_dims.push_back({"group", options.group});
  query_dims.push_back(depth);
  const auto dense_options = [&](const char* name) {
    return DenseOptions{.name = name, .bias = options.bias};
  };
  Tensor q = dense(x, {axis}, query_dims, dense_options("query"));
  Tensor k = dense(x, {axis}, {heads, depth}, dense_options("key"));
  Tensor v = dense(x, {axis}, {heads, depth}, dense_options("value"));
  if (options.rotary) {
    q = turned(q, options.caching);
    k = turned(k, options.caching);
  }
  const Tensor mixed = options.caching.is_step() ? attend_to_cache(q, k, v, options.caching)
                                                 : attend_to_all(q, k, v, options);
  std::vector<std::string> summed;
  for (const auto& dim : query_dims) summed.push_back(dim.name);
  const Dim out = x.shape()[x.shape().index_of(axis)];
  const Tensor value = dense(mixed, summed, {out}, {.name = "output", .gain = options.output_gain});
  const Tensor bias = options.bias ? weight(x.graph(), "output_bias", Shape{out}, x.dtype(),
                                            Initializer::constant(0), false)
                                   : Tensor();
  return {value, bias};
}

}  // namespace tessera::nn
