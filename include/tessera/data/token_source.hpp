// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/data/corpus.hpp"
#include "tessera/data/token_samples.hpp"
#include "tessera/data/vocabulary.hpp"

namespace tessera::data {

/// One stream of tokens for each entry of data.path, its end cut off for validation unless
/// data.validation or the token file gives one.
struct TokenStreams {
  std::vector<Stream> train;
  std::vector<Stream> validation;  ///< may be empty: validation_fraction = 0
  Vocabulary vocabulary = Vocabulary::bytes();
};

/// Streams of data.source = text, tokens or random. Ids must stay below `model_vocab` (0: below the
/// data's vocabulary); random ones are a function of `seed`. UserError that names the key.
TokenStreams open_token_streams(const DataConfig& config, std::int64_t model_vocab,
                                std::uint64_t seed = 0);

/// Below which ids of data.source = random stay; UserError if neither data nor model say so, or
/// data.vocab is more than the model's.
std::int64_t random_vocab(const DataConfig& config, std::int64_t model_vocab);

/// The three as sources of samples for language models.
Corpus open_token_source(const DataConfig& config, const Wanted& wanted);

}  // namespace tessera::data
