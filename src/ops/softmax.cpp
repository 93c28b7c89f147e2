// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/ops/softmax.hpp"

#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/pointwise.hpp"
#include "tessera/ops/reduce.hpp"
#include "tessera/ops/strategies.hpp"

namespace tessera::ops {
namespace {

Tensor log_sum(Tensor x, const std::string& dim) {
  x.shape().index_of(dim);
  return reduce_logsumexp(x, x.shape().without(dim));
}

}  // namespace

Tensor reduce_logsumexp(Tensor x, const Shape& output) {
  const DType dtype = statistics_dtype(x.dtype());
  // Any finite shift gives the same value and gradient; an infinite one would give NaN.
  const Tensor shift = stop_gradient(pointwise1(
      {reduce_max(x, output)},
      [](auto in) { return select(in[0].apply(PointOp::is_finite), in[0], in[0].constant(0)); },
      {.shape = output, .dtypes = {dtype}, .name = "shift"}));
  const Tensor powers =
      pointwise1({x, shift}, [](auto in) { return (in[0] - in[1]).apply(PointOp::exp); },
                 {.shape = x.shape(), .dtypes = {dtype}, .name = "exp"});
  return pointwise1({reduce_sum(powers, output), shift},
                    [](auto in) { return in[0].apply(PointOp::log) + in[1]; },
                    {.shape = output, .dtypes = {dtype}, .name = "logsumexp"});
}

Tensor softmax(Tensor x, const std::string& dim) {
  return pointwise1({x, log_sum(x, dim)},
                    [](auto in) { return (in[0] - in[1]).apply(PointOp::exp); },
                    {.shape = x.shape(), .dtypes = {x.dtype()}, .name = "softmax"});
}

Tensor log_softmax(Tensor x, const std::string& dim) {
  return pointwise1({x, log_sum(x, dim)}, [](auto in) { return in[0] - in[1]; },
                    {.shape = x.shape(), .dtypes = {x.dtype()}, .name = "log_softmax"});
}

}  // namespace tessera::ops
