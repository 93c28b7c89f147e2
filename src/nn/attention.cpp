// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/ops/attention.hpp"
#include "tessera/nn/layers.hpp"
#include "tessera/nn/weights.hpp"
#include "tessera/ops/einsum.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/positions.hpp"

namespace tessera::nn {

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
    q = ops::rotary(q, "length");
    k = ops::rotary(k, "length");
  }
  const Tensor mixed = ops::attention(q, k, v,
                                      {.causal = true,
                                       .dropout = options.dropout,
                                       .seed = options.seed,
                                       .batch_total = options.total_rows});
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
