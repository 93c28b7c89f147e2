// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <vector>

namespace tessera::train {

struct BeamOptions {
  std::int64_t beam = 4;         ///< hypotheses that are kept alive, and that are kept finished
  double alpha = 0.6;            ///< of the length penalty, >= 0; 0: none
  std::int64_t max_length = 64;  ///< tokens of a hypothesis, the end token included
  std::int32_t end = -1;         ///< token that finishes a hypothesis; -1: only max_length does
};

/// ((5 + length) / 6)^alpha (Wu et al., "Google's Neural Machine Translation System"); a
/// hypothesis' score is its log probability divided by that.
double length_penalty(std::int64_t length, double alpha);

/// Tokens with their score, the end token included if there is one.
struct Hypothesis {
  std::vector<std::int32_t> tokens;
  double log_probability = 0;
  double score = 0;
};

/// A continuation of one hypothesis by one token.
struct Candidate {
  std::int32_t token = 0;
  double log_probability = 0;  ///< of the token, given the hypothesis
};

/// Beam search for one row: plain bookkeeping on the host, which a model's numbers drive. Each step
/// looks at the 2 x beam best continuations, so that beam of them go on even if as many end
/// (Tensor2Tensor's rule). Equal scores: the earlier hypothesis, then the lower token, comes first.
class BeamSearch {
 public:
  explicit BeamSearch(const BeamOptions& options);

  /// Candidates that each alive hypothesis must give: its likeliest tokens, or all there are.
  std::int64_t candidates_needed() const { return 2 * options_.beam; }
  /// Takes one step; candidates[i] belong to the i-th of the `beam` places, likeliest first.
  void advance(const std::vector<std::vector<Candidate>>& candidates);

  /// True once no alive hypothesis can reach the score of the worst of `beam` finished ones, or at
  /// max_length.
  bool is_done() const;
  /// By place: the token that was added last, and the place that its hypothesis had before. Places
  /// without a hypothesis hold token 0 of place 0.
  const std::vector<std::int32_t>& last_tokens() const { return tokens_; }
  const std::vector<std::int32_t>& parents() const { return parents_; }

  /// Finished hypotheses, best first; if there are none, those that were alive at max_length.
  std::vector<Hypothesis> results() const;

 private:
  void finish(Hypothesis hypothesis);

  BeamOptions options_;
  std::vector<Hypothesis> alive_;  ///< likeliest first, at most beam
  std::vector<Hypothesis> finished_;
  std::vector<std::int32_t> tokens_, parents_;
  std::int64_t length_ = 0;
};

}  // namespace tessera::train
