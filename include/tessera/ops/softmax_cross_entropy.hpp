// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "tessera/graph/graph.hpp"

namespace tessera::ops {

struct CrossEntropyOptions {
  /// Share s of the target spread evenly over the vocabulary.
  double smoothing = 0;
  /// Factor z of the term z lse^2 that keeps the logits' scale.
  double z_loss = 0;
};

/// Loss of each row: lse - (1 - s) logit[label] - s / V sum(logits) + z lse^2, with lse the
/// log-sum-exp of the row. logits [rows…, vocab], the vocabulary last, labels i32 [rows…]; loss
/// [rows…], f32 (f64 for f64). Where the vocabulary is cut no logits are gathered: the rows' maxima
/// are reduced, then one bucket of sums.
Tensor softmax_cross_entropy(Tensor logits, Tensor labels, const CrossEntropyOptions& options);

}  // namespace tessera::ops
