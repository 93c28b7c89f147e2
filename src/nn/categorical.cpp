// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/nn/categorical.hpp"

#include "tessera/base/error.hpp"
#include "tessera/nn/weights.hpp"
#include "tessera/ops/einsum.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/pointwise.hpp"
#include "tessera/ops/random.hpp"
#include "tessera/ops/reduce.hpp"
#include "tessera/ops/shape_ops.hpp"
#include "tessera/ops/softmax.hpp"

namespace tessera::nn {

void Support::validate(const std::string& what) const {
  check_user(atoms >= 2, what, ": ", atoms, " atoms; there must be at least 2");
  check_user(low < high, what, ": from ", low, " to ", high, "; the second must be larger");
}

Tensor atoms(Graph& graph, const Support& support, DType dtype) {
  return ops::range(graph, support.along(), dtype, support.low, support.gap());
}

Tensor expectation(Tensor probabilities, const Support& support) {
  const DType dtype = weight_dtype(probabilities.dtype());  // few atoms are 16-bit numbers
  const Tensor values = atoms(probabilities.graph(), support, dtype);
  return ops::einsum({ops::cast(probabilities, dtype), values},
                     probabilities.shape().without(support.dim));
}

Tensor project_categorical(Tensor probabilities, Tensor reward, Tensor discount,
                           const Support& support) {
  Graph& graph = probabilities.graph();
  const DType dtype = weight_dtype(probabilities.dtype());
  Support from = support;
  from.dim += "_before";
  const Tensor p = ops::rename(ops::cast(probabilities, dtype), support.dim, from.dim);
  const Tensor moved =
      ops::pointwise1({reward, discount, atoms(graph, from, dtype)},
                      [&](std::span<const ops::Value> in) {
                        return (in[0] + in[1] * in[2])
                            .apply(ops::PointOp::maximum, in[0].constant(support.low))
                            .apply(ops::PointOp::minimum, in[0].constant(support.high));
                      },
                      {.shape = p.shape(), .dtypes = {dtype}, .name = "moved_atoms"});
  std::vector<Dim> dims(p.shape().begin(), p.shape().end());
  dims.push_back(support.along());
  // A hat of the width of two gaps around each atom.
  const Tensor share =
      ops::pointwise1({moved, atoms(graph, support, dtype)},
                      [&](std::span<const ops::Value> in) {
                        const auto distance = (in[0] - in[1]).apply(ops::PointOp::absolute);
                        return (1.0 - (1 / support.gap()) * distance).apply(ops::PointOp::relu);
                      },
                      {.shape = Shape(dims), .dtypes = {dtype}, .name = "share"});
  return ops::einsum({p, share}, probabilities.shape());
}

Tensor categorical_cross_entropy(Tensor logits, Tensor target, const Support& support) {
  const Tensor logs = ops::log_softmax(logits, support.dim);
  return ops::reduce_sum(ops::multiply(logs, target), logits.shape().without(support.dim), -1);
}

}  // namespace tessera::nn
