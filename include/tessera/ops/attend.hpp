// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "tessera/graph/graph.hpp"

/// Attention in primitives, with all scores in memory: for one position at a time, and where
/// attention's gradient is differentiated. ops/attention.hpp has the fast one.
namespace tessera::ops {

struct AttendOptions {
  double scale = 0;  ///< of the scores; 0: 1 / sqrt(d)
  Tensor bias{};     ///< of the scores, any of their dims
  /// What becomes of the probabilities, before they are divided by their sum: dropout.
  std::function<Tensor(Tensor)> drop{};
};

/// Attention of queries q [batch…, (group,) d] to keys and values [batch…, memory, …, d] by names:
/// softmax over `memory` of scale q k + bias, where `visible` (any of the scores' dims) is not 0.
/// Rows that see nothing give zeros. Where the memory is cut, ranks exchange maxima and sums of
/// their parts and no keys. Gradients of any order.
Tensor attend(Tensor q, Tensor k, Tensor v, const std::string& memory, Tensor visible,
              const AttendOptions& options = {});

/// i32 over the dims of both: the bucket of each key's distance from each query, of which positions
/// are given as numbers (program::RelativeBuckets).
Tensor relative_bucket_ids(Tensor queries, Tensor keys, std::int64_t count, bool both,
                           std::int64_t max_distance);

}  // namespace tessera::ops
