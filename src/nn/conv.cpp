// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/nn/conv.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"
#include "tessera/nn/weights.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/embedding.hpp"
#include "tessera/ops/group_norm.hpp"
#include "tessera/ops/pointwise.hpp"
#include "tessera/ops/reduce.hpp"
#include "tessera/ops/shape_ops.hpp"

namespace tessera::nn {

Tensor conv(Tensor x, const std::vector<std::string>& space, const std::string& channels,
            const Dim& fresh, const ConvOptions& options) {
  std::vector<ops::ConvDim> dims;
  std::vector<Dim> filter;
  for (const auto& name : space) {
    dims.push_back({.dim = name, .kernel = "kernel_" + name, .stride = options.stride});
    filter.push_back({"kernel_" + name, options.kernel});
  }
  filter.push_back(x.shape()[x.shape().index_of(channels)]);
  const Initializer initializer = fan_in_normal(filter, options.gain);
  filter.push_back(fresh);
  const Tensor w =
      spectral_norm(weight(x.graph(), options.name, Shape(filter), x.dtype(), initializer),
                    {fresh.name}, options.name, options.spectral);
  const Tensor y = ops::conv(x, ops::cast(w, x.dtype()), std::move(dims), options.padding);
  if (!options.bias && options.activation == Activation::none) return y;
  std::vector<Tensor> inputs{y};
  if (options.bias)
    inputs.push_back(weight(x.graph(), options.name + "_bias", Shape{fresh}, x.dtype(),
                            Initializer::constant(0), false));
  return ops::pointwise1(inputs,
                         [&](std::span<const ops::Value> in) {
                           return activate(in.size() == 2 ? in[0] + in[1] : in[0],
                                           options.activation);
                         },
                         {.shape = y.shape(), .dtypes = {x.dtype()}, .name = options.name});
}

namespace {

/// A running statistic under the open scopes, read; it moves to `now` where that is given.
Tensor running(Graph& graph, const std::string& name, const Shape& shape, DType dtype,
               double first) {
  Variable variable;
  variable.name = name;
  variable.spec = {shape, dtype};
  variable.kind = Variable::Kind::state;
  variable.initializer = Initializer::constant(first);
  return graph.variable(std::move(variable));
}

/// `now` may have further dims, over which it counts by `counts` where that is given: without any
/// element nothing moves.
void move_towards(Graph& graph, const std::string& name, Tensor old, Tensor now, Tensor counts,
                  double keep) {
  if (!counts) {
    const Tensor mean = ops::reduce_mean(now, old.shape());
    graph.assign(graph.scoped(name),
                 ops::add(ops::multiply(old, keep), ops::multiply(mean, 1 - keep)));
    return;
  }
  const Tensor sum = ops::reduce_sum(ops::multiply(now, counts), old.shape());
  const Tensor count = ops::reduce_sum(counts, old.shape());
  const auto moved = [keep](std::span<const ops::Value> in) {
    const auto one = in[2].constant(1);
    const auto share = (1 - keep) * in[2].apply(ops::PointOp::minimum, one);
    return in[0] + share * (in[1] / in[2].apply(ops::PointOp::maximum, one) - in[0]);
  };
  graph.assign(graph.scoped(name),
               ops::pointwise1({old, sum, count}, moved,
                               {.shape = old.shape(), .dtypes = {old.dtype()}, .name = name}));
}

/// A scale or bias [channels], or [labels' dims…, channels] by the rows' classes.
Tensor affine(Tensor x, const std::string& name, const Shape& line, const BatchNormOptions& options,
              double first) {
  const auto declared = [&](const Shape& shape) {
    return weight(x.graph(), name, shape, x.dtype(), Initializer::constant(first), false);
  };
  if (!options.labels) return declared(line);
  return ops::embedding(declared(Shape{{"classes", options.classes}, line[0]}), options.labels);
}

}  // namespace

Tensor batch_norm(Tensor x, const std::string& channels, const BatchNormOptions& options,
                  const std::vector<std::string>& kept) {
  Graph& graph = x.graph();
  const Graph::Scope scope(graph, options.name);
  const Shape line{x.shape()[x.shape().index_of(channels)]};
  const Tensor scale = affine(x, "scale", line, options, options.scale);
  const Tensor bias = affine(x, "bias", line, options, 0);
  const DType dtype = weight_dtype(x.dtype());
  const Tensor mean = running(graph, "running_mean", line, dtype, 0);
  const Tensor variance = running(graph, "running_variance", line, dtype, 1);
  if (!options.training) {
    return ops::pointwise1(
        {x, mean, variance, scale, bias},
        [&](std::span<const ops::Value> in) {
          return (in[0] - in[1]) * (in[2] + options.epsilon).apply(ops::PointOp::rsqrt) * in[3] +
                 in[4];
        },
        {.shape = x.shape(), .dtypes = {x.dtype()}, .name = "running_norm"});
  }
  std::vector<std::string> over;
  for (const auto& dim : x.shape())
    if (dim.name != channels && std::find(kept.begin(), kept.end(), dim.name) == kept.end())
      over.push_back(dim.name);
  const bool by_class = static_cast<bool>(options.labels);
  const auto normal =
      ops::group_norm(x, over, {channels}, by_class ? Tensor() : scale, by_class ? Tensor() : bias,
                      options.epsilon, options.row_weights);
  if (options.moving) {
    move_towards(graph, "running_mean", mean, normal.mean, normal.count, options.momentum);
    move_towards(graph, "running_variance", variance, normal.variance, normal.count,
                 options.momentum);
  }
  if (!by_class) return normal.value;
  return ops::pointwise1({normal.value, scale, bias},
                         [](std::span<const ops::Value> in) { return in[0] * in[1] + in[2]; },
                         {.shape = x.shape(), .dtypes = {x.dtype()}, .name = "by_class"});
}

Tensor upsample(Tensor x, const std::vector<std::string>& space, std::int64_t factor) {
  std::vector<Dim> repeated, enlarged;
  for (const auto& dim : x.shape()) {
    repeated.push_back(dim);
    enlarged.push_back(dim);
    if (std::find(space.begin(), space.end(), dim.name) == space.end()) continue;
    repeated.push_back({"repeated_" + dim.name, factor});
    enlarged.back().size *= factor;
  }
  check_user(repeated.size() == enlarged.size() + space.size(), "upsample of '", x.name(), "' ",
             x.shape().to_string(), ": it lacks one of ", join(space, ", "));
  return ops::reshape(ops::broadcast(x, Shape(std::move(repeated))), Shape(std::move(enlarged)));
}

}  // namespace tessera::nn
