// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/nn/cache.hpp"

#include <algorithm>
#include <cmath>

#include "tessera/base/error.hpp"
#include "tessera/nn/weights.hpp"
#include "tessera/ops/decoding.hpp"
#include "tessera/ops/einsum.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/gather.hpp"
#include "tessera/ops/pointwise.hpp"
#include "tessera/ops/random.hpp"
#include "tessera/ops/reduce.hpp"
#include "tessera/ops/shape_ops.hpp"
#include "tessera/program/relative_buckets.hpp"

namespace tessera::nn {
namespace {

/// Below every score that a finite network gives, and no infinity: differences stay numbers.
constexpr double kHidden = -1e30;

Variable cache_variable(const std::string& name, const TensorSpec& spec) {
  Variable variable;
  variable.name = name;
  variable.spec = spec;
  variable.kind = Variable::Kind::cache;
  return variable;
}

/// [batch, (beam,) memory, rest…] of x without beams.
Shape cache_shape(const Shape& x, const Dim& memory, const Caching& caching) {
  std::vector<Dim> dims{x[0]};
  if (caching.beam > 0) dims.push_back({"beam", caching.beam});
  dims.push_back(memory);
  for (int d = 1; d < x.rank(); ++d)
    if (x[d].name != memory.name && x[d].name != "beam") dims.push_back(x[d]);
  return Shape(dims);
}

}  // namespace

void keep(const std::string& name, Tensor x) {
  Graph& graph = x.graph();
  graph.variables().declare(cache_variable(graph.scoped(name), x.spec()));
  graph.assign(graph.scoped(name), x);
}

Tensor kept(Graph& graph, const std::string& name, const TensorSpec& spec) {
  return graph.variable(cache_variable(name, spec));
}

Tensor kept(Graph& graph, const std::string& name) {
  const VariableSet& variables = graph.variables();
  const int index = variables.find(graph.scoped(name));
  TESSERA_CHECK(index >= 0, "no section keeps '", graph.scoped(name), "'");
  const TensorSpec spec = variables[index].spec;
  return kept(graph, name, spec);
}

void fill_cache(const std::string& name, Tensor x, const std::string& memory,
                const Caching& caching) {
  const std::int64_t length = x.shape().size_of(memory);
  TESSERA_CHECK(length <= caching.length, "a cache of ", caching.length, " positions for ", length);
  if (length < caching.length) x = ops::pad(x, memory, 0, caching.length);
  const Shape shape = cache_shape(x.shape(), {memory, caching.length}, caching);
  keep(name, x.shape() == shape ? x : ops::broadcast(x, shape));
}

Tensor extend_cache(const std::string& name, Tensor x, const std::string& memory,
                    const Caching& caching) {
  const Shape shape = cache_shape(x.shape(), {memory, caching.length}, caching);
  const Tensor before = kept(x.graph(), name, {shape, x.dtype()});
  const Tensor whole = ops::write_at(before, x, memory, kPositionFeed);
  keep(name, whole);
  return whole;
}

Tensor visible_so_far(Graph& graph, const Dim& memory, DType dtype) {
  const Tensor index = ops::range(graph, memory, dtype);
  return ops::pointwise1(
      {index, graph.feed(kPositionFeed, dtype)},
      [](std::span<const ops::Value> in) { return 1.0 - in[1].apply(ops::PointOp::less, in[0]); },
      {.shape = Shape{memory}, .dtypes = {dtype}, .name = "visible"});
}

Tensor relative_bias_at(Tensor biases, const Dim& memory, std::int64_t max_distance) {
  Graph& graph = biases.graph();
  const auto count = static_cast<int>(biases.shape().size_of("buckets"));
  const auto buckets = program::relative_buckets(count, false, max_distance);
  // The bucket is the number of later ones that have begun at the distance.
  constexpr int kInOne = 32;
  std::vector<Tensor> parts;
  for (int first = 1; first < count || first == 1; first += kInOne) {
    const auto begun = [&](std::span<const ops::Value> in) {
      const ops::Value distance = in[1] - in[0];
      ops::Value sum = in[0].constant(0);
      for (int b = first; b < std::min(count, first + kInOne); ++b)
        sum = sum + (in[0].constant(buckets.begin[b] - 0.5)).apply(ops::PointOp::less, distance);
      return sum;
    };
    parts.push_back(ops::pointwise1(
        {ops::range(graph, memory, DType::f64), graph.feed(kPositionFeed, DType::f64)}, begun,
        {.shape = Shape{memory}, .dtypes = {DType::f64}, .name = "bucket"}));
  }
  return ops::gather(biases, ops::cast(ops::add_n(parts), DType::i32), "buckets");
}

Tensor attend(Tensor q, Tensor k, Tensor v, const std::string& memory, Tensor visible, double scale,
              Tensor bias) {
  const Dim depth = q.shape()[q.shape().rank() - 1];
  const Dim keys{memory, k.shape().size_of(memory)};
  const DType wide = weight_dtype(q.dtype());
  if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(depth.size));
  const Shape rows = q.shape().without(depth.name);
  std::vector<Dim> dims = rows.dims();
  dims.push_back(keys);
  const Shape shape(dims);
  std::vector<Tensor> terms{ops::einsum({q, k}, shape, wide), visible};
  if (bias) terms.push_back(bias);
  const Tensor scores = ops::pointwise1(
      terms,
      [&](std::span<const ops::Value> in) {
        const ops::Value score = scale * in[0];
        return ops::select(in[1], in.size() > 2 ? score + in[2] : score, in[0].constant(kHidden));
      },
      {.shape = shape, .dtypes = {wide}, .name = "scores"});
  const Tensor top = ops::reduce_max(scores, rows);
  const Tensor weights = ops::pointwise1(
      {scores, top, visible},
      [](std::span<const ops::Value> in) {
        return ops::select(in[2], (in[0] - in[1]).apply(ops::PointOp::exp), in[0].constant(0));
      },
      {.shape = shape, .dtypes = {wide}, .name = "probabilities"});
  const Tensor sum = ops::reduce_sum(weights, rows);
  const Tensor mixed = ops::einsum({ops::cast(weights, v.dtype()), v}, q.shape(), wide);
  return ops::pointwise1({mixed, sum},
                         [](std::span<const ops::Value> in) {
                           return ops::select(in[1], in[0] / in[1], in[0].constant(0));
                         },
                         {.shape = q.shape(), .dtypes = {q.dtype()}, .name = "mixed"});
}

}  // namespace tessera::nn
