// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/ops/attend.hpp"

#include <algorithm>
#include <cmath>

#include "tessera/ops/einsum.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/pointwise.hpp"
#include "tessera/ops/reduce.hpp"
#include "tessera/ops/strategies.hpp"
#include "tessera/program/relative_buckets.hpp"

namespace tessera::ops {
namespace {

/// Below every score that a finite network gives, and no infinity: differences stay numbers.
constexpr double kHidden = -1e30;

Value less_than(Value a, Value b) {
  return a.apply(PointOp::less, b);
}

}  // namespace

Tensor attend(Tensor q, Tensor k, Tensor v, const std::string& memory, Tensor visible,
              const AttendOptions& options) {
  const Dim depth = q.shape()[q.shape().rank() - 1];
  const DType wide = statistics_dtype(q.dtype());
  const double scale =
      options.scale == 0 ? 1 / std::sqrt(static_cast<double>(depth.size)) : options.scale;
  const Shape rows = q.shape().without(depth.name);
  std::vector<Dim> dims = rows.dims();
  dims.push_back({memory, k.shape().size_of(memory)});
  const Shape shape(dims);
  std::vector<Tensor> terms{einsum({q, k}, shape, wide), visible};
  if (options.bias) terms.push_back(options.bias);
  const Tensor scores = pointwise1(terms,
                                   [&](std::span<const Value> in) {
                                     const Value score = scale * in[0];
                                     return select(in[1], in.size() > 2 ? score + in[2] : score,
                                                   in[0].constant(kHidden));
                                   },
                                   {.shape = shape, .dtypes = {wide}, .name = "scores"});
  // Any shift gives the same probabilities.
  const Tensor top = stop_gradient(reduce_max(scores, rows));
  Tensor weights =
      pointwise1({scores, top, visible},
                 [](std::span<const Value> in) {
                   return select(in[2], (in[0] - in[1]).apply(PointOp::exp), in[0].constant(0));
                 },
                 {.shape = shape, .dtypes = {wide}, .name = "probabilities"});
  const Tensor sum = reduce_sum(weights, rows);
  if (options.drop) weights = options.drop(weights);
  const Tensor mixed = einsum({cast(weights, v.dtype()), v}, q.shape(), wide);
  return pointwise1({mixed, sum},
                    [](std::span<const Value> in) {
                      // The divisor is never 0, so that no infinity meets the gradient.
                      const Value divisor = select(in[1], in[1], in[1].constant(1));
                      return select(in[1], in[0] / divisor, in[0].constant(0));
                    },
                    {.shape = q.shape(), .dtypes = {q.dtype()}, .name = "mixed"});
}

Tensor relative_bucket_ids(Tensor queries, Tensor keys, std::int64_t count, bool both,
                           std::int64_t max_distance) {
  const auto table = program::relative_buckets(static_cast<int>(count), both, max_distance);
  const PointwiseOptions options{
      .shape = queries.shape().united(keys.shape()), .dtypes = {DType::f64}, .name = "bucket"};
  // The bucket is the number of later ones that have begun at the distance; with both sides those
  // of keys behind the query follow the others.
  constexpr int kAtOnce = 32;
  std::vector<Tensor> counts;
  for (int begin = 1; begin < table.one_side || begin == 1; begin += kAtOnce)
    counts.push_back(pointwise1(
        {queries, keys},
        [&](std::span<const Value> in) {
          const Value before = in[0] - in[1];
          const Value far = both ? before.apply(PointOp::absolute) : before;
          Value sum = far.constant(0);
          if (both && begin == 1)
            sum = select(less_than(in[0], in[1]), far.constant(table.one_side), sum);
          for (int b = begin; b < std::min(table.one_side, begin + kAtOnce); ++b)
            sum = sum + less_than(far.constant(table.begin[b] - 0.5), far);
          return sum;
        },
        options));
  return cast(add_n(counts), DType::i32);
}

}  // namespace tessera::ops
