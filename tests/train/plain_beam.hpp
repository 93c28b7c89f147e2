// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "support/catch.hpp"
#include "tessera/train/beam_search.hpp"

/// Beam search as a plain program, for comparison.
namespace tessera::test {

using train::BeamOptions;
using train::Hypothesis;
using Ids = std::vector<std::int32_t>;
/// Log probabilities of the next token, given those so far.
using Scorer = std::function<std::vector<double>(const Ids&)>;

inline std::vector<double> normalised(std::vector<double> logits) {
  double sum = 0;
  for (double logit : logits) sum += std::exp(logit);
  for (double& logit : logits) logit -= std::log(sum);
  return logits;
}

/// Beam search written down once more: no early end, no caches, whole lists. `margin` becomes the
/// smallest gap at which it decided.
inline std::vector<Hypothesis> plain_search(const BeamOptions& options, const Scorer& scorer,
                                            double& margin) {
  std::vector<Hypothesis> alive(1), finished;
  for (std::int64_t length = 1; length <= options.max_length && !alive.empty(); ++length) {
    std::vector<Hypothesis> grown;
    for (const auto& hypothesis : alive) {
      const auto scores = scorer(hypothesis.tokens);
      for (std::size_t id = 0; id < scores.size(); ++id) {
        Hypothesis next = hypothesis;
        next.tokens.push_back(static_cast<std::int32_t>(id));
        next.log_probability += scores[id];
        next.score =
            next.log_probability / std::pow((5.0 + static_cast<double>(length)) / 6, options.alpha);
        grown.push_back(next);
      }
    }
    std::sort(grown.begin(), grown.end(),
              [](const auto& a, const auto& b) { return a.score > b.score; });
    const auto looked_at = static_cast<std::size_t>(2 * options.beam);
    for (std::size_t i = 1; i < grown.size() && i <= looked_at; ++i)
      margin = std::min(margin, grown[i - 1].log_probability - grown[i].log_probability);
    if (grown.size() > looked_at) grown.resize(looked_at);
    alive.clear();
    for (const auto& hypothesis : grown)
      if (hypothesis.tokens.back() == options.end)
        finished.push_back(hypothesis);
      else if (static_cast<std::int64_t>(alive.size()) < options.beam)
        alive.push_back(hypothesis);
  }
  if (finished.empty()) return alive;
  std::sort(finished.begin(), finished.end(),
            [](const auto& a, const auto& b) { return a.score > b.score; });
  for (std::size_t i = 1; i < finished.size(); ++i)
    margin = std::min(margin, finished[i - 1].score - finished[i].score);
  if (static_cast<std::int64_t>(finished.size()) > options.beam)
    finished.resize(static_cast<std::size_t>(options.beam));
  return finished;
}

inline void check_equal(const std::vector<Hypothesis>& found,
                        const std::vector<Hypothesis>& expected, double tolerance) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    INFO("hypothesis " << i);
    CHECK(found[i].tokens == expected[i].tokens);
    CHECK(std::abs(found[i].score - expected[i].score) < tolerance);
    CHECK(std::abs(found[i].log_probability - expected[i].log_probability) < tolerance);
  }
}

}  // namespace tessera::test
