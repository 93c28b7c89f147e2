// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/data/dataset.hpp"

namespace tessera::data {

/// One source of samples. `weight` says how often an epoch goes through it: 1 takes each sample
/// once, 3 three times, 0.5 half of them (the other half in the next epoch).
struct Stream {
  DatasetPtr tokens;
  double weight = 1;
};

/// Streams cut into samples, and the order in which an epoch takes them. Sample s of a stream has
/// the tokens [s * length, (s + 1) * length] : `length` inputs and, shifted by one, their targets.
/// So each token but the first is a target in exactly one sample. The order is a function of (seed,
/// epoch, index), the same on every mesh.
class Samples {
 public:
  enum class Order { shuffled, sequential };

  /// UserError if there is no stream, or one without a single target, or a weight is not positive.
  Samples(std::vector<Stream> streams, std::int64_t length, std::uint64_t seed, Order order);

  std::int64_t length() const { return length_; }
  /// Samples of one epoch: the sum over streams of weight * samples, rounded (at least 1 each).
  std::int64_t per_epoch() const { return per_epoch_; }
  /// Tokens of all streams.
  std::int64_t tokens() const;
  /// Identifies streams, weights and length (not the order).
  Digest digest() const;

  /// Where a sample lies.
  struct Sample {
    int stream = 0;
    std::int64_t number = 0;   ///< of the sample in its stream
    std::int64_t begin = 0;    ///< its first token
    std::int64_t targets = 0;  ///< of `length` at most; fewer at a stream's end
  };
  Sample at(std::int64_t epoch, std::int64_t index) const;
  const Dataset& stream(int index) const {
    return *streams_[static_cast<std::size_t>(index)].tokens;
  }

 private:
  std::int64_t samples_of(const Stream& stream) const;

  std::vector<Stream> streams_;
  std::vector<std::int64_t> first_;  // of each stream among an epoch's slots, and the end
  std::int64_t length_;
  std::uint64_t seed_;
  Order order_;
  std::int64_t per_epoch_ = 0;
};

/// Throws UserError unless every stream holds one whole sample of `length` + 1 tokens; `key` names
/// the deck key in the message.
void check_long_enough(const std::vector<Stream>& streams, std::int64_t length, const char* key);

}  // namespace tessera::data
