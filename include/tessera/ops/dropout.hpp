// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>

#include "tessera/graph/graph.hpp"

namespace tessera::ops {

struct DropoutOptions {
  double rate = 0;
  /// The run's seed and the stream's name under the open scopes: equal ones give equal masks.
  std::uint64_t seed = 0;
  std::string name = "dropout";
  /// The dim that micro-batches cut, and its size in the whole step; "": none.
  std::string batch_dim = "batch";
  std::int64_t batch_total = 0;
};

/// x with each element zero with probability `rate`, the others divided by 1 - rate. The mask is a
/// function of seed, name, step and the element's index in the step's whole tensor, so it does not
/// depend on mesh, layout or micro-batches. x itself if the rate is 0.
Tensor dropout(Tensor x, const DropoutOptions& options);

}  // namespace tessera::ops
