// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/data/config.hpp"
#include "tessera/data/samples.hpp"
#include "tessera/data/vocabulary.hpp"

namespace tessera::data {

/// The opened data of a run.
struct Corpus {
  std::vector<Stream> train;
  std::vector<Stream> validation;  ///< may be empty: validation_fraction = 0
  Vocabulary vocabulary = Vocabulary::bytes();

  /// "text, 1 stream, 1,003,854 training and 111,540 validation tokens".
  std::string to_string(const DataConfig& config) const;
};

/// Opens what a deck names. Ids must stay below `model_vocab` (0: below the data's vocabulary).
/// Call on the main thread (it may use HDF5). UserError that names the key.
Corpus open_corpus(const DataConfig& config, std::int64_t model_vocab);

/// The samples of a corpus: shuffled by data.seed, or `run_seed` if that is negative; and the
/// validation samples in order, null if there are none.
std::shared_ptr<const Samples> train_samples(const Corpus& corpus, const DataConfig& config,
                                             std::uint64_t run_seed);
std::shared_ptr<const Samples> validation_samples(const Corpus& corpus, const DataConfig& config);

/// What a checkpoint says about its data, and whether a run goes on with the same.
struct DataIdentity {
  std::int64_t tokens = 0;
  std::string digest;
  bool operator==(const DataIdentity&) const = default;
};
/// Reads the data (Dataset::digest): one rank is enough.
DataIdentity identity_of(const Samples& samples);
/// UserError naming both if they differ.
void check_same_data(const DataIdentity& saved, const DataIdentity& now);

}  // namespace tessera::data
