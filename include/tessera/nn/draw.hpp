// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>

#include "tessera/graph/graph.hpp"

namespace tessera::nn {

struct DrawOptions {
  double temperature = 1;  ///< divides the logits; 0: the likeliest token
  std::int64_t top_k = 0;  ///< draw from this many of the likeliest; 0: from all
  std::uint64_t seed = 0;
};

/// One token for each row of logits [rows…, vocab] by the softmax of logits / temperature: i32
/// [rows…]. The largest of logits and Gumbel noise is such a draw (Maddison et al., "A* Sampling"),
/// so a vocabulary that is cut needs no gathering. The noise is a function of the seed, Feeds::step
/// and the place in the whole tensor: the same on every mesh. Equal values: the lower id.
Tensor draw(Tensor logits, const DrawOptions& options);

/// The likeliest tokens of each row of logits [rows…, vocab]: their log probabilities and ids,
/// [rows…, candidate], falling; `count` of them, or all there are.
struct Candidates {
  Tensor log_probabilities;
  Tensor ids;
};
Candidates likeliest(Tensor logits, std::int64_t count);

}  // namespace tessera::nn
