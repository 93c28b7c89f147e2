// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/nn/spectral_norm.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"
#include "tessera/ops/einsum.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/pointwise.hpp"
#include "tessera/ops/reduce.hpp"

namespace tessera::nn {
namespace {

/// x / |x|, as a constant: no gradient flows into it.
Tensor direction(Tensor x) {
  constexpr double kTiny = 1e-24;  // a weight that is all zero has no direction
  x = ops::stop_gradient(x);
  return ops::pointwise1({x, ops::reduce_sum_squares(x, Shape{})},
                         [&](std::span<const ops::Value> in) {
                           return in[0] * (in[1] + kTiny).apply(ops::PointOp::rsqrt);
                         },
                         {.shape = x.shape(), .dtypes = {x.dtype()}, .name = "direction"});
}

Tensor left_vector(Graph& graph, const std::string& name, const TensorSpec& spec) {
  Variable u;
  u.name = name;
  u.spec = spec;
  u.kind = Variable::Kind::state;
  u.initializer = Initializer::normal(1);
  return graph.variable(std::move(u));
}

}  // namespace

Tensor spectral_norm(Tensor weight, const std::vector<std::string>& out, const std::string& name,
                     Spectral spectral) {
  if (spectral == Spectral::none) return weight;
  std::vector<Dim> rows, columns;
  for (const auto& dim : weight.shape())
    (std::find(out.begin(), out.end(), dim.name) == out.end() ? columns : rows).push_back(dim);
  check_user(rows.size() == out.size(), "spectral_norm of '", weight.name(), "' ",
             weight.shape().to_string(), ": it lacks one of the dims of its result");
  Graph& graph = weight.graph();
  const Tensor u = left_vector(graph, name + "_u", {Shape(rows), weight.dtype()});
  const Tensor v =
      direction(ops::einsum({ops::stop_gradient(weight), u}, Shape(std::move(columns))));
  const Tensor image = ops::einsum({weight, v}, u.shape());
  const Tensor next = direction(image);
  if (spectral == Spectral::moving) graph.assign(graph.scoped(name + "_u"), next);
  const Tensor sigma = ops::reduce_sum(ops::multiply(image, next), Shape{});
  return ops::divide(weight, sigma);
}

}  // namespace tessera::nn
