// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/nn/cache.hpp"

#include "tessera/base/error.hpp"
#include "tessera/ops/attend.hpp"
#include "tessera/ops/decoding.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/gather.hpp"
#include "tessera/ops/pointwise.hpp"
#include "tessera/ops/random.hpp"
#include "tessera/ops/shape_ops.hpp"

namespace tessera::nn {
namespace {

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
  Variable cache = cache_variable(graph.scoped(name), x.spec());
  cache.device = graph.device_of(x.id());
  graph.variables().declare(std::move(cache));
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

Tensor visible_so_far(Graph& graph, const Dim& memory, DType dtype, const char* feed) {
  const Tensor index = ops::range(graph, memory, dtype);
  return ops::pointwise1(
      {index, graph.feed(feed, dtype)},
      [](std::span<const ops::Value> in) { return 1.0 - in[1].apply(ops::PointOp::less, in[0]); },
      {.shape = Shape{memory}, .dtypes = {dtype}, .name = "visible"});
}

Tensor relative_bias_at(Tensor biases, const Dim& memory, std::int64_t max_distance) {
  Graph& graph = biases.graph();
  const Tensor ids = ops::relative_bucket_ids(
      graph.feed(kPositionFeed, DType::f64), ops::range(graph, memory, DType::f64),
      biases.shape().size_of("buckets"), /*both=*/false, max_distance);
  return ops::gather(biases, ids, "buckets");
}

}  // namespace tessera::nn
