// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/beam_search.hpp"

#include <algorithm>
#include <cmath>

#include "tessera/base/error.hpp"

namespace tessera::train {
namespace {

/// One continuation of one alive hypothesis.
struct Choice {
  double log_probability;
  std::size_t parent;
  std::int32_t token;
};

bool before(const Choice& a, const Choice& b) {
  if (a.log_probability != b.log_probability) return a.log_probability > b.log_probability;
  return a.parent != b.parent ? a.parent < b.parent : a.token < b.token;
}

}  // namespace

double length_penalty(std::int64_t length, double alpha) {
  return std::pow((5.0 + static_cast<double>(length)) / 6.0, alpha);
}

BeamSearch::BeamSearch(const BeamOptions& options) : options_(options), alive_(1) {
  TESSERA_CHECK(options.beam >= 1 && options.alpha >= 0 && options.max_length >= 1, "beam ",
                options.beam, ", alpha ", options.alpha, ", length ", options.max_length);
  tokens_.assign(static_cast<std::size_t>(options.beam), 0);
  parents_.assign(static_cast<std::size_t>(options.beam), 0);
}

void BeamSearch::advance(const std::vector<std::vector<Candidate>>& candidates) {
  TESSERA_CHECK(!is_done() && candidates.size() >= alive_.size(), "a step of beam search with ",
                candidates.size(), " lists of candidates");
  std::vector<Choice> choices;
  for (std::size_t i = 0; i < alive_.size(); ++i)
    for (const auto& candidate : candidates[i]) {
      // They could not be sorted.
      TESSERA_CHECK(!std::isnan(candidate.log_probability),
                    "the model gives probabilities that are not numbers");
      choices.push_back(
          {alive_[i].log_probability + candidate.log_probability, i, candidate.token});
    }
  std::sort(choices.begin(), choices.end(), before);
  if (choices.size() > static_cast<std::size_t>(candidates_needed()))
    choices.resize(static_cast<std::size_t>(candidates_needed()));
  ++length_;
  std::vector<Hypothesis> next;
  std::fill(tokens_.begin(), tokens_.end(), 0);
  std::fill(parents_.begin(), parents_.end(), 0);
  for (const auto& choice : choices) {
    const bool ends = choice.token == options_.end;
    if (!ends && next.size() == tokens_.size()) continue;
    Hypothesis hypothesis = alive_[choice.parent];
    hypothesis.tokens.push_back(choice.token);
    hypothesis.log_probability = choice.log_probability;
    hypothesis.score = choice.log_probability / length_penalty(length_, options_.alpha);
    if (ends) {
      finish(std::move(hypothesis));
      continue;
    }
    tokens_[next.size()] = choice.token;
    parents_[next.size()] = static_cast<std::int32_t>(choice.parent);
    next.push_back(std::move(hypothesis));
  }
  alive_ = std::move(next);
}

void BeamSearch::finish(Hypothesis hypothesis) {
  const auto place =
      std::upper_bound(finished_.begin(), finished_.end(), hypothesis,
                       [](const Hypothesis& a, const Hypothesis& b) { return a.score > b.score; });
  finished_.insert(place, std::move(hypothesis));
  if (finished_.size() > tokens_.size()) finished_.pop_back();
}

bool BeamSearch::is_done() const {
  if (length_ >= options_.max_length || alive_.empty()) return true;
  if (finished_.size() < tokens_.size()) return false;
  // Log probabilities only fall, and no later length divides by more than this.
  const double bound =
      alive_.front().log_probability / length_penalty(options_.max_length, options_.alpha);
  return finished_.back().score >= bound;
}

std::vector<Hypothesis> BeamSearch::results() const {
  return finished_.empty() ? alive_ : finished_;
}

}  // namespace tessera::train
