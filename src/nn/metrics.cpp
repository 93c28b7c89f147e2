// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/nn/metrics.hpp"

#include "tessera/ops/compare.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/pointwise.hpp"
#include "tessera/ops/reduce.hpp"
#include "tessera/ops/softmax_cross_entropy.hpp"
#include "tessera/ops/top_k.hpp"

namespace tessera::nn {

Tensor correct(Tensor logits, Tensor labels) {
  // The cross-entropy of a distribution that is even over the row's maxima and nothing elsewhere:
  // log of their number at a maximum, huge at any other label. A row of NaN has no maximum, and
  // the z-loss of its normaliser is infinite.
  constexpr double kHuge = 1e30;
  logits = ops::stop_gradient(ops::cast(logits, DType::f32));
  const Tensor top = ops::reduce_max(logits, labels.shape());
  const Tensor even = ops::multiply(ops::logical_not(ops::greater_equal(logits, top)), -kHuge);
  const Tensor entropy = ops::softmax_cross_entropy(even, labels, {.z_loss = 1});
  return ops::pointwise1({entropy}, [&](std::span<const ops::Value> in) {
    return in[0].apply(ops::PointOp::less, in[0].constant(kHuge / 2));
  });
}

Tensor among_likeliest(Tensor logits, Tensor labels, std::int64_t count) {
  const std::string& classes = logits.shape()[logits.shape().rank() - 1].name;
  logits = ops::stop_gradient(ops::cast(logits, DType::f32));
  const Tensor likeliest = ops::top_k(logits, classes, {"likeliest", count}).indices;
  const Tensor found =
      ops::reduce_any(ops::cast(ops::equal(likeliest, labels), DType::f32), labels.shape());
  const Tensor top = ops::reduce_max(logits, labels.shape());
  return ops::multiply(found, ops::equal(top, top));  // in a row of NaN nothing is likely
}

}  // namespace tessera::nn
