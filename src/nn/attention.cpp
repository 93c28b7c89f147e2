// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/ops/attention.hpp"
#include "tessera/base/error.hpp"
#include "tessera/nn/cache.hpp"
#include "tessera/nn/layers.hpp"
#include "tessera/nn/weights.hpp"
#include "tessera/ops/attend.hpp"
#include "tessera/ops/einsum.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/pointwise.hpp"
#include "tessera/ops/positions.hpp"
#include "tessera/ops/random.hpp"
#include "tessera/ops/shape_ops.hpp"

namespace tessera::nn {

namespace {

std::vector<Dim> query_dims(const SelfAttentionOptions& options) {
  std::vector<Dim> dims{{"heads", options.heads}};
  if (options.group > 1) dims.push_back({"group", options.group});
  dims.push_back({"d_kv", options.d_kv});
  return dims;
}

struct Projected {
  Tensor q, k, v;
};

Tensor project_query(Tensor x, const std::string& axis, const SelfAttentionOptions& options) {
  return dense(x, {axis}, query_dims(options), {.name = "query", .bias = options.bias});
}
Tensor project_key(Tensor x, const std::string& axis, const SelfAttentionOptions& options) {
  return dense(x, {axis}, {{"heads", options.heads}, {"d_kv", options.d_kv}},
               {.name = "key", .bias = options.bias});
}
Tensor project_value(Tensor x, const std::string& axis, const SelfAttentionOptions& options) {
  return dense(x, {axis}, {{"heads", options.heads}, {"d_kv", options.d_kv}},
               {.name = "value", .bias = options.bias});
}

/// Variables query, key, value (and biases).
Projected project(Tensor x, Tensor memory, const std::string& axis,
                  const SelfAttentionOptions& options) {
  return {project_query(x, axis, options), project_key(memory, axis, options),
          project_value(memory, axis, options)};
}

Tensor attend_to_all(const Projected& p, const SelfAttentionOptions& options) {
  return ops::attention(p.q, p.k, p.v,
                        {.causal = options.causal,
                         .dropout = options.dropout,
                         .seed = options.seed,
                         .batch_total = options.total_rows,
                         .window = options.window,
                         .query_segments = options.query_segments,
                         .key_segments = options.key_segments,
                         .relative_bias = options.relative_bias,
                         .max_distance = options.max_distance,
                         .keys = options.keys});
}

/// 1 for the positions along `memory` that the fed one sees.
Tensor visible_positions(Graph& graph, const Dim& memory, DType dtype, std::int64_t window) {
  const Tensor so_far = visible_so_far(graph, memory, dtype);
  if (window == 0) return so_far;
  return ops::pointwise1(
      {so_far, ops::range(graph, memory, dtype), graph.feed(kPositionFeed, dtype)},
      [&](std::span<const ops::Value> in) {
        const ops::Value before_all = in[2] + -static_cast<double>(window);
        return in[0] * before_all.apply(ops::PointOp::less, in[1]);
      },
      {.shape = so_far.shape(), .dtypes = {dtype}, .name = "visible_in_window"});
}

/// Attention of one position to itself and all before it.
Tensor attend_to_cache(Projected p, const SelfAttentionOptions& options) {
  if (options.rotary) {
    p.q = ops::rotary_at(p.q, kPositionFeed);
    p.k = ops::rotary_at(p.k, kPositionFeed);
  }
  const Tensor keys = extend_cache("key_cache", p.k, "memory", options.caching);
  const Tensor values = extend_cache("value_cache", p.v, "memory", options.caching);
  const Dim memory{"memory", options.caching.length};
  const Tensor visible =
      visible_positions(p.q.graph(), memory, weight_dtype(p.q.dtype()), options.window);
  const Tensor bias = options.relative_bias
                          ? relative_bias_at(options.relative_bias, memory, options.max_distance)
                          : Tensor();
  return ops::attend(p.q, keys, values, "memory", visible, {.bias = bias});
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

Dim axis_of(Tensor x, const std::string& axis) {
  return x.shape()[x.shape().index_of(axis)];
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
  Projected p = project(x, memory, axis, options);
  if (options.rotary) {
    p.q = ops::rotary(p.q, x.shape()[1].name);
    p.k = ops::rotary(p.k, memory.shape()[1].name);
  }
  return output(attend_to_all(p, options), axis_of(x, axis), options);
}

void keep_memory(Tensor memory, const std::string& axis, const SelfAttentionOptions& options) {
  keep("key_cache", project_key(memory, axis, options));
  keep("value_cache", project_value(memory, axis, options));
}

Branch attention_to_kept(Tensor x, const std::string& along, Tensor visible,
                         const std::string& axis, const SelfAttentionOptions& options) {
  Graph& graph = x.graph();
  const Tensor mixed = ops::attend(project_query(x, axis, options), kept(graph, "key_cache"),
                                   kept(graph, "value_cache"), along, visible);
  return output(mixed, axis_of(x, axis), options);
}

Branch self_attention(Tensor x, const std::string& axis, const SelfAttentionOptions& options) {
  Projected p = project(x, x, axis, options);
  if (options.caching.is_step())
    return output(attend_to_cache(std::move(p), options), axis_of(x, axis), options);
  const std::string& length = x.shape()[1].name;
  if (options.rotary) {
    p.q = ops::rotary(p.q, length);
    p.k = ops::rotary(p.k, length);
  }
  if (options.caching.phase == Caching::Phase::fill) {
    fill_cache("key_cache", ops::rename(p.k, length, "memory"), "memory", options.caching);
    fill_cache("value_cache", ops::rename(p.v, length, "memory"), "memory", options.caching);
  }
  return output(attend_to_all(p, options), axis_of(x, axis), options);
}

}  // namespace tessera::nn
