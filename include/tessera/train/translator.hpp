// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/train/session.hpp"

namespace tessera::train {

/// Ids with a meaning in data of pairs: what a target begins after, and what ends source and
/// target.
inline constexpr std::int32_t kBeginToken = 0;
inline constexpr std::int32_t kEndToken = 1;

/// A text about a source, with its score (train/beam_search.hpp).
struct Translation {
  std::string text;
  double score = 0;
  double log_probability = 0;
};

struct Translations {
  std::vector<std::vector<Translation>> of_lines;  ///< best first, translate.best at most
  std::int64_t cut = 0;                            ///< lines that were too long and lost their ends
  std::int64_t tokens = 0;                         ///< of the best translations
  double tokens_per_second = 0;
};

/// Beam search for each line, translate.batch of them at a time (sections encode, decode, reorder).
/// The same on every mesh. Collective.
Translations translate(const Session& session, const std::vector<std::string>& lines);

}  // namespace tessera::train
