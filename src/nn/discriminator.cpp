// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/nn/discriminator.hpp"

#include "tessera/nn/layers.hpp"
#include "tessera/nn/weights.hpp"
#include "tessera/ops/einsum.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/embedding.hpp"

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

}  // namespace tessera::nn
