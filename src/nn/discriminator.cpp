// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/nn/discriminator.hpp"

#include "tessera/base/error.hpp"
#include "tessera/nn/layers.hpp"
#include "tessera/nn/weights.hpp"
#include "tessera/ops/einsum.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/embedding.hpp"
#include "tessera/ops/pointwise.hpp"
#include "tessera/ops/reduce.hpp"

namespace tessera::nn {

Tensor projection_score(Tensor features, const std::string& channels, Tensor labels,
                        std::int64_t classes, Spectral spectral) {
  Graph& graph = features.graph();
  const Dim line = features.shape()[features.shape().index_of(channels)];
  const Tensor plain =
      dense(features, {channels}, {}, {.name = "score", .bias = true, .spectral = spectral});
  const Dim class_dim{"classes", classes};
  const Tensor table = spectral_norm(weight(graph, "score_classes", Shape{class_dim, line},
                                            features.dtype(), fan_in_normal({line})),
                                     {class_dim.name}, "score_classes", spectral);
  const Tensor rows = ops::embedding(ops::cast(table, features.dtype()), labels);
  return ops::add(plain, ops::einsum({features, rows}, plain.shape()));
}

Tensor hinge(Tensor score, bool should_be_high) {
  return ops::pointwise1({score}, [&](std::span<const ops::Value> in) {
    return ((should_be_high ? -1.0 : 1.0) * in[0] + 1.0).apply(ops::PointOp::relu);
  });
}

Tensor gradient_penalty(Tensor score, Tensor x) {
  // A score depends on its own row alone, so the slopes of the sum are each score's.
  const Tensor slopes = gradients(ops::reduce_sum(score, Shape{}), {x})[0];
  check_user(static_cast<bool>(slopes), "gradient_penalty: '", score.name(),
             "' does not depend on '", x.name(), "'");
  return ops::pointwise1({ops::reduce_sum_squares(slopes, score.shape())},
                         [](std::span<const ops::Value> in) {
                           const ops::Value excess =
                               (in[0] + 1e-12).apply(ops::PointOp::sqrt) + -1.0;
                           return excess * excess;
                         },
                         {.shape = {}, .dtypes = {}, .name = "gradient_penalty"});
}

}  // namespace tessera::nn
