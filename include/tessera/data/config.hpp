// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/config/schema.hpp"
#include "tessera/data/loader.hpp"
#include "tessera/data/samples.hpp"
#include "tessera/data/vocabulary.hpp"

namespace tessera::data {

/// Section [data] of a deck.
struct DataConfig {
  std::string source = "text";
  std::vector<std::string> path;
  std::vector<std::string> validation;
  double validation_fraction = 0.05;
  std::int64_t batch = 8;
  std::int64_t length = 128;
  std::int64_t vocab = 256;
  std::int64_t random_tokens = 1 << 20;
  std::int64_t seed = -1;
  int ahead = 2;

  void describe(config::Schema& schema);
};

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

/// Cross-entropy in nats per token of `validation` under the frequencies of single tokens in
/// `train` (each count plus one): what a model without context reaches. Of each stream at most the
/// first `limit` tokens are read.
double unigram_nats(const std::vector<Stream>& train, const std::vector<Stream>& validation,
                    std::int64_t vocab, std::int64_t limit = std::int64_t{1} << 24);

}  // namespace tessera::data
