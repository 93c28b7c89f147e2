// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/nn/layers.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"
#include "tessera/nn/weights.hpp"
#include "tessera/ops/dropout.hpp"
#include "tessera/ops/einsum.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/norm.hpp"
#include "tessera/ops/reduce.hpp"

namespace tessera::nn {

ops::Value activate(ops::Value x, Activation activation) {
  switch (activation) {
    case Activation::relu:
      return x.apply(ops::PointOp::relu);
    case Activation::gelu:
      return x.apply(ops::PointOp::gelu);
    case Activation::gelu_tanh:
      return x.apply(ops::PointOp::gelu_tanh);
    case Activation::silu:
      return x.apply(ops::PointOp::silu);
    default:
      return x;
  }
}

namespace {

/// x W in x's dtype.
Tensor project(Tensor x, const std::vector<std::string>& summed, const std::vector<Dim>& fresh,
               const DenseOptions& options) {
  std::vector<Dim> inner, outer, kept;
  for (const auto& name : summed) inner.push_back(x.shape()[x.shape().index_of(name)]);
  for (const auto& dim : x.shape())
    if (std::find(summed.begin(), summed.end(), dim.name) == summed.end()) kept.push_back(dim);
  for (const auto& name : options.experts) outer.push_back(x.shape()[x.shape().index_of(name)]);
  outer.insert(outer.end(), inner.begin(), inner.end());
  outer.insert(outer.end(), fresh.begin(), fresh.end());
  kept.insert(kept.end(), fresh.begin(), fresh.end());
  std::vector<std::string> results;
  for (const auto& dim : fresh) results.push_back(dim.name);
  const Tensor w = spectral_norm(
      weight(x.graph(), options.name, Shape(outer), x.dtype(), fan_in_normal(inner, options.gain)),
      results, options.name, options.spectral);
  return ops::einsum({x, ops::cast(w, x.dtype())}, Shape(kept));
}

Tensor bias_of(Tensor x, const std::vector<Dim>& fresh, const DenseOptions& options) {
  std::vector<Dim> dims;
  for (const auto& name : options.experts) dims.push_back(x.shape()[x.shape().index_of(name)]);
  dims.insert(dims.end(), fresh.begin(), fresh.end());
  return weight(x.graph(), options.name + "_bias", Shape(dims), x.dtype(), Initializer::constant(0),
                false);
}

}  // namespace

Tensor dense(Tensor x, const std::vector<std::string>& summed, const std::vector<Dim>& fresh,
             const DenseOptions& options) {
  const Tensor product = project(x, summed, fresh, options);
  if (!options.bias && options.activation == Activation::none) return product;
  std::vector<Tensor> inputs{product};
  if (options.bias) inputs.push_back(bias_of(x, fresh, options));
  return ops::pointwise1(inputs,
                         [&](std::span<const ops::Value> in) {
                           return activate(in.size() == 2 ? in[0] + in[1] : in[0],
                                           options.activation);
                         },
                         {.shape = product.shape(), .dtypes = {x.dtype()}, .name = options.name});
}

Tensor norm(Tensor x, const std::string& axis, Norm kind, bool bias, double epsilon,
            const std::string& name) {
  Graph& graph = x.graph();
  const Graph::Scope scope(graph, name);
  const Shape shape{x.shape()[x.shape().index_of(axis)]};
  const Tensor scale = weight(graph, "scale", shape, x.dtype(), Initializer::constant(1), false);
  if (kind == Norm::rms) return ops::rms_norm(x, axis, scale, epsilon);
  const Tensor shift =
      bias ? weight(graph, "bias", shape, x.dtype(), Initializer::constant(0), false) : Tensor();
  return ops::layer_norm(x, axis, scale, shift, epsilon);
}

Branch feed_forward(Tensor x, const std::string& axis, const Dim& hidden,
                    const FeedForwardOptions& options) {
  Tensor h;
  if (options.gated) {
    const auto projected = [&](const std::string& name) {
      return project(x, {axis}, {hidden}, {.name = name, .experts = options.experts});
    };
    std::vector<Tensor> inputs{projected("gate"), projected("up")};
    if (options.bias)
      for (const char* name : {"gate", "up"})
        inputs.push_back(bias_of(x, {hidden}, {.name = name, .experts = options.experts}));
    h = ops::pointwise1(inputs,
                        [&](std::span<const ops::Value> in) {
                          const bool bias = in.size() == 4;
                          const auto gate = bias ? in[0] + in[2] : in[0];
                          return activate(gate, options.activation) *
                                 (bias ? in[1] + in[3] : in[1]);
                        },
                        {.shape = inputs[0].shape(), .dtypes = {x.dtype()}, .name = "gated"});
  } else {
    h = dense(x, {axis}, {hidden},
              {.name = "up",
               .bias = options.bias,
               .activation = options.activation,
               .experts = options.experts});
  }
  const Dim out = x.shape()[x.shape().index_of(axis)];
  const DenseOptions down{.name = "down", .gain = options.output_gain, .experts = options.experts};
  return {project(h, {hidden.name}, {out}, down),
          options.bias ? bias_of(h, {out}, down) : Tensor()};
}

Tensor residual(Tensor x, const Branch& branch, const ResidualOptions& options) {
  const auto sum = [](std::span<const ops::Value> in) {
    return in.size() == 3 ? in[0] + in[1] + in[2] : in[0] + in[1];
  };
  if (options.dropout == 0) {
    std::vector<Tensor> terms{branch.value, x};
    if (branch.bias) terms.push_back(branch.bias);
    return ops::pointwise1(terms, sum,
                           {.shape = x.shape(), .dtypes = {x.dtype()}, .name = "residual"});
  }
  const Tensor value = branch.bias ? ops::add(branch.value, branch.bias) : branch.value;
  const Tensor dropped = ops::dropout(value, {.rate = options.dropout,
                                              .seed = options.seed,
                                              .name = options.name,
                                              .batch_total = options.total_rows});
  return ops::add(dropped, x);
}

Tensor weighted_sum(Tensor loss, Tensor weights) {
  return ops::reduce_sum(ops::multiply(loss, weights), Shape{});
}

}  // namespace tessera::nn
