// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>

#include "tessera/config/schema.hpp"
#include "tessera/nn/layers.hpp"

namespace tessera::nn {

/// Deck keys of a mixture of experts, model.moe.*.
struct MoeConfig {
  std::int64_t experts = 0;  ///< 0: no mixture
  std::int64_t outer = 1;    ///< experts are a grid of outer x experts / outer: two mesh dims
  std::int64_t every = 1;
  std::int64_t d_ff = 0;     ///< hidden width of an expert; 0: as without experts
  std::int64_t choices = 1;  ///< experts of a token: 1 (switch) or 2
  std::int64_t group = 0;    ///< tokens of a group; 0: a row
  double capacity = 1.25;
  double eval_capacity = 2;
  double balance = 0.01;
  double z_loss = 0;
  double jitter = 0;
  /// Top-2 in training: the second expert takes a token with probability (its share) /
  /// second_threshold, so seldom where it hardly counts; 0: always.
  double second_threshold = 0;

  /// Places of one expert for tokens of one group.
  std::int64_t places(std::int64_t tokens, bool train) const;
};

void describe(config::Schema& schema, MoeConfig& config);
/// UserError that names the key.
void validate(const MoeConfig& config);

struct MoeOptions {
  FeedForwardOptions feed_forward;  ///< of each expert; without an output bias
  bool train = true;
  /// One position of each text: x is [batch, (beam,) axis].
  bool is_step = false;
  /// [length], 1 or 0: tokens that count. The others are padding, which takes nobody's place.
  /// Empty: all count.
  Tensor known = {};
  std::uint64_t seed = 0;
  std::int64_t total_rows = 0;  ///< batch rows of the step
};

struct MoeOutput {
  Tensor value;  ///< x's shape; zero for tokens that no expert has room for
  /// Scalar, to be added to the mean loss; empty in evaluation and where no factor asks for it:
  ///   balance x E sum_e f_e P_e + z_loss x mean(logsumexp(logits)^2),
  /// f_e the share of all tokens whose first choice is e, P_e the mean probability of e, both over
  /// all rows of the section, whatever the mesh.
  Tensor loss;
};

/// Feed-forward layer of many experts, of which each token goes to one or two (Shazeer et al.,
/// "Outrageously Large Neural Networks"; GShard, arXiv:2006.16668; Switch Transformer,
/// arXiv:2101.03961). x is [batch, length, axis]. Each row is cut into groups, dims "groups" and
/// "tokens"; in a group an expert has a number of places ("capacity"), given to the first choices
/// in the tokens' order, then to the second choices. What gets no place is left to the residual
/// path. In a decoding step the hypotheses of a text form a group and each expert has a place for
/// all of them: no token of a step is left out, whatever comes together. With second_threshold a
/// token goes to its second expert by chance, in proportion to the weight there (GShard's random
/// dispatch; shares are those of both). A token's result is its experts' weighted by their
/// probabilities (two: divided by their sum).
///
/// Tokens are brought to their places by local lookups. Then the dims gate, batch and groups are
/// renamed to experts, expert_batch and expert_groups: with `batch` and `experts` on one mesh dim
/// that is one all_to_all there and one back, in each direction. Rules for `experts` (and
/// `experts_outer`, if the experts are a grid) spread experts over other mesh dims, rules for
/// `expert_batch` keep tokens where they are. Variables gate, up, (gate_up,) down under the open
/// scopes.
MoeOutput moe(Tensor x, const std::string& axis, const Dim& hidden, const MoeConfig& config,
              const MoeOptions& options);

}  // namespace tessera::nn
