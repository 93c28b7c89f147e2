// SPDX-License-Identifier: BSD-3-Clause
#include "attention_expansion.hpp"

#include "attention_lowering.hpp"
#include "dropout.hpp"
#include "tessera/ops/attend.hpp"
#include "tessera/ops/einsum.hpp"
#include "tessera/ops/gather.hpp"
#include "tessera/ops/pointwise.hpp"
#include "tessera/ops/random.hpp"
#include "tessera/ops/shape_ops.hpp"
#include "tessera/ops/strategies.hpp"

namespace tessera::ops {
namespace {

/// 1 where a query sees a key, over the dims of both positions and, with segments, the batch.
Tensor visible_keys(Tensor queries, Tensor keys, std::span<const Tensor> segments,
                    const Attributes& attributes, DType dtype) {
  const bool causal = attributes.integer("causal") != 0;
  const auto window = static_cast<double>(attributes.integer("window"));
  std::vector<Tensor> operands{queries, keys};
  operands.insert(operands.end(), segments.begin(), segments.end());
  Shape shape = queries.shape().united(keys.shape());
  for (const auto& ids : segments) shape = ids.shape().united(shape);
  return pointwise1(
      operands,
      [&](std::span<const Value> in) {
        const Value one = in[0].constant(1), before = in[0] - in[1];
        Value seen = one;
        if (causal) seen = one - before.apply(PointOp::less, in[0].constant(0));
        if (window > 0)
          seen =
              seen * before.apply(PointOp::absolute).apply(PointOp::less, in[0].constant(window));
        if (!segments.empty())
          seen = seen * in[2].apply(PointOp::equal, in[3]) *
                 (one - in[2].apply(PointOp::equal, in[0].constant(0)));
        return seen;
      },
      {.shape = shape, .dtypes = {dtype}, .name = "visible"});
}

}  // namespace

Tensor expand_attention(Tensor q, Tensor k, Tensor v, Tensor bias, std::span<const Tensor> segments,
                        const Attributes& attributes) {
  const Shape& shape = q.shape();
  const Dim length = shape[1];
  Dim memory = k.shape()[1];
  std::vector<Tensor> ids(segments.begin(), segments.end());
  if (memory.name == length.name) {
    memory.name = "_memory";
    for (Tensor* of_keys : {&k, &v}) *of_keys = rename(*of_keys, length.name, memory.name);
    if (!ids.empty()) ids[1] = rename(ids[1], length.name, memory.name);
  }
  Graph& graph = q.graph();
  const Tensor queries = range(graph, length, DType::f64), keys = range(graph, memory, DType::f64);
  AttendOptions options{.scale = attributes.real("scale")};
  if (bias) {
    const Dim buckets = bias.shape()[bias.shape().rank() - 1];
    options.bias =
        gather(bias,
               relative_bucket_ids(queries, keys, buckets.size, attributes.integer("causal") == 0,
                                   attributes.integer("max_distance")),
               buckets.name);
  }
  // The attention's draws are counted in this order of dims.
  std::vector<Dim> drawn{shape[0], shape[2]};
  if (shape.rank() == 5) drawn.push_back(shape[3]);
  drawn.insert(drawn.end(), {length, memory});
  if (attributes.real("dropout") > 0)
    options.drop = [&](Tensor weights) {
      return dropout_of_stream(einsum({weights}, Shape(drawn)), attributes.real("dropout"),
                               attributes.integer("key"), 0, attributes.integer("batch_total"));
    };
  const Tensor visible = visible_keys(queries, keys, ids, attributes, statistics_dtype(q.dtype()));
  return attend(q, k, v, memory.name, visible, options);
}

}  // namespace tessera::ops
