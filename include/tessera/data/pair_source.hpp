// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>

#include "tessera/data/corpus.hpp"
#include "tessera/data/pair_samples.hpp"

namespace tessera::data {

/// data.source = pairs: files of tools/prepare_pairs.py, one stream for each entry of data.path;
/// or, without data.path, generated pairs. UserError that names file and dataset.
Corpus open_pairs(const DataConfig& config, const Wanted& wanted);

/// data.source = random for models of pairs: sequences of up to data.length random ids, with
/// data.random_tokens target ids in all.
Corpus open_random_pairs(const DataConfig& config, const Wanted& wanted);

/// `count` pairs of words of a small language and their translation, a function of `seed`: of each
/// word the letters turn round. Ids: 0 begins and pads, 1 ends a sequence, then the blank and
/// letters; see generated_vocabulary.
PairsPtr generated_pairs(std::int64_t count, std::uint64_t seed);
Vocabulary generated_vocabulary();

/// The language of `generated_pairs`: "abc de" becomes "cba ed".
std::string generated_translation(const std::string& source);

}  // namespace tessera::data
