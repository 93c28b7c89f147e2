// SPDX-License-Identifier: BSD-3-Clause
#include "norm_expansion.hpp"

#include <algorithm>

#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/expansion.hpp"
#include "tessera/ops/pointwise.hpp"
#include "tessera/ops/reduce.hpp"
#include "tessera/ops/strategies.hpp"

namespace tessera::ops {
namespace {

Tensor mean_of(Tensor x, const Shape& statistics, const LeftOut& left_out) {
  if (!left_out.row_weights) return reduce_mean(x, statistics);
  const Tensor counted = pointwise1({x, left_out.row_weights, left_out.count},
                                    [](std::span<const Value> in) {
                                      const Value count =
                                          in[2].apply(PointOp::maximum, in[2].constant(1));
                                      return select(in[1], in[0] / count, in[0].constant(0));
                                    },
                                    {.shape = x.shape(), .dtypes = {x.dtype()}, .name = "counted"});
  return reduce_sum(counted, statistics);
}

}  // namespace

Tensor expand_norm(Tensor x, Tensor scale, Tensor bias, const Shape& statistics, bool centered,
                   double epsilon, const LeftOut& left_out) {
  const Tensor wide = cast(x, statistics_dtype(x.dtype()));
  const Tensor deviation = centered ? subtract(wide, mean_of(wide, statistics, left_out)) : wide;
  const Tensor variance = mean_of(square(deviation), statistics, left_out);
  std::vector<Tensor> operands{deviation, variance};
  if (scale) operands.push_back(scale);
  if (bias) operands.push_back(bias);
  return pointwise1(operands,
                    [&](std::span<const Value> in) {
                      Value y = in[0] * (in[1] + epsilon).apply(PointOp::rsqrt);
                      if (scale) y = y * in[2];
                      if (bias) y = y + in[scale ? 3 : 2];
                      return y;
                    },
                    {.shape = x.shape(), .dtypes = {x.dtype()}, .name = "norm"});
}

std::vector<Tensor> norm_gradient_of_gradient(std::span<const Tensor> inputs,
                                              std::span<const Tensor> slopes, bool scale, bool bias,
                                              const Shape& parameters, const Shape& statistics,
                                              bool centered, double epsilon,
                                              const LeftOut& left_out) {
  const Tensor x = inputs[1];
  std::vector<Tensor> operands{x};
  if (scale) operands.push_back(inputs[2]);
  // The norm is linear in its bias: any value gives the same gradients.
  if (bias) operands.push_back(fill(x.graph(), 0, {parameters, statistics_dtype(x.dtype())}));
  const auto expand = [&](std::span<const Tensor> own) {
    return expand_norm(own[0], scale ? own[1] : Tensor(), bias ? own[scale ? 2 : 1] : Tensor(),
                       statistics, centered, epsilon, left_out);
  };
  const auto found = gradient_of_gradient(expand, inputs[0], operands,
                                          std::vector<Tensor>(slopes.begin(), slopes.end()));
  std::vector<Tensor> result(inputs.size());
  std::copy_n(found.begin(), scale ? 3 : 2, result.begin());
  return result;
}

}  // namespace tessera::ops
