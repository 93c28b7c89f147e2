// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/nn/draw.hpp"

#include <algorithm>

#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/gather.hpp"
#include "tessera/ops/pointwise.hpp"
#include "tessera/ops/random.hpp"
#include "tessera/ops/softmax.hpp"
#include "tessera/ops/top_k.hpp"

namespace tessera::nn {
namespace {

/// Index along `dim` of one draw by the softmax of scores / temperature.
Tensor noisy_argmax(Tensor scores, const std::string& dim, const DrawOptions& options) {
  // In double, since numbers next to 1 must not become 1.
  const TensorSpec spec{scores.shape(), DType::f64};
  const Tensor uniform =
      ops::random_uniform(scores.graph(), spec, 0, 1, {options.seed, "draw", "", 0});
  const Tensor noisy = ops::pointwise1(
      {scores, uniform},
      [&](std::span<const ops::Value> in) {
        const ops::Value exponential = -in[1].apply(ops::PointOp::log);
        return (1 / options.temperature) * in[0] - exponential.apply(ops::PointOp::log);
      },
      {.shape = spec.shape, .dtypes = {DType::f64}, .name = "noisy"});
  return ops::argmax(noisy, dim);
}

}  // namespace

Tensor draw(Tensor logits, const DrawOptions& options) {
  if (options.temperature == 0) return ops::argmax(logits, "vocab");
  if (options.top_k == 0) return noisy_argmax(logits, "vocab", options);
  const std::int64_t k = std::min(options.top_k, logits.shape().size_of("vocab"));
  const ops::TopK best = ops::top_k(logits, "vocab", {"choice", k});
  const Tensor choice = noisy_argmax(best.values, "choice", options);
  return ops::gather(best.indices, choice, "choice");
}

Candidates likeliest(Tensor logits, std::int64_t count) {
  const std::int64_t k = std::min(count, logits.shape().size_of("vocab"));
  const ops::TopK best = ops::top_k(logits, "vocab", {"candidate", k});
  const Tensor whole = ops::reduce_logsumexp(logits, logits.shape().without("vocab"));
  return {ops::subtract(best.values, whole), best.indices};
}

}  // namespace tessera::nn
