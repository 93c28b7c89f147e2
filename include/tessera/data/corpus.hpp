// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tessera/data/config.hpp"
#include "tessera/data/samples.hpp"
#include "tessera/data/vocabulary.hpp"

namespace tessera::data {

/// What a run wants of its data.
struct Wanted {
  std::string model;          ///< its name, for messages
  std::vector<Field> inputs;  ///< the model's, for one sample
  std::int64_t vocab = 0;     ///< ids must stay below it; 0: below the data's vocabulary
  std::uint64_t seed = 0;     ///< of the order of samples, unless data.seed gives one
};

/// The opened data of a run.
struct Corpus {
  std::shared_ptr<const Samples> train;
  std::shared_ptr<const Samples> validation;  ///< in order; null: none
  Vocabulary vocabulary = Vocabulary::bytes();
  /// "1 stream, 1,003,854 training and 111,540 validation tokens, vocabulary of 256".
  std::string text;
  /// Reads the data for the validation loss, in nats, of a model that knows nothing but
  /// frequencies. Empty: no such number is of use.
  std::function<double()> baseline;
};

/// A kind of data that a deck may name as data.source.
struct Source {
  std::string name;
  std::string help;
  Corpus (*open)(const DataConfig& config, const Wanted& wanted);
};
/// All of them: a new kind of data is one line more.
const std::vector<Source>& sources();

/// Opens what a deck names. Call on the main thread (it may use HDF5). UserError that names the
/// key, or the model's input that such data do not give.
Corpus open_corpus(const DataConfig& config, const Wanted& wanted);

/// UserError unless the samples have every input of the model; `giver` is where they come from.
void check_inputs(const std::string& giver, const Wanted& wanted, const Samples& samples);

/// The seed of the order of samples.
std::uint64_t order_seed(const DataConfig& config, const Wanted& wanted);

/// What a checkpoint says about its data, and whether a run goes on with the same.
struct DataIdentity {
  std::int64_t size = 0;  ///< Samples::size
  std::string digest;
  bool operator==(const DataIdentity&) const = default;
};
/// Reads the data (Samples::digest): one rank is enough.
DataIdentity identity_of(const Samples& samples);
/// UserError naming both if they differ; `unit` is what they are counted in.
void check_same_data(const DataIdentity& saved, const DataIdentity& now, const std::string& unit);

}  // namespace tessera::data
