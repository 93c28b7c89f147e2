// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera::data {

/// The order in which epochs take the items of one or several streams: a function of (seed, epoch,
/// index), the same on every mesh; nothing is stored but the streams' sizes.
class Order {
 public:
  enum class Kind { shuffled, sequential };

  /// `weight` says how often an epoch goes through a stream: 1 takes each item once, 3 three times,
  /// 0.5 half of them (the other half in the next epoch).
  struct Stream {
    std::int64_t items = 0;
    double weight = 1;
    std::string name;
  };
  /// UserError if there is no stream, or a weight is not positive.
  Order(std::vector<Stream> streams, std::uint64_t seed, Kind kind);

  /// Items of one epoch: the sum over streams of weight * items, rounded (at least 1 each).
  std::int64_t per_epoch() const { return first_.back(); }

  struct Place {
    int stream = 0;
    std::int64_t item = 0;
  };
  Place at(std::int64_t epoch, std::int64_t index) const;

 private:
  std::vector<Stream> streams_;
  std::vector<std::int64_t> first_;  // of each stream among an epoch's slots, and the end
  std::uint64_t seed_;
  Kind kind_;
};

}  // namespace tessera::data
