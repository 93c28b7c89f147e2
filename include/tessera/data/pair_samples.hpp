// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/data/dataset.hpp"
#include "tessera/data/order.hpp"
#include "tessera/data/samples.hpp"

namespace tessera::data {

/// Pairs of sequences: source[i] with target[i]. Each sequence ends with the end-of-sequence id.
class Pairs {
 public:
  /// `source` and `target` hold all sequences one after the other; entry i of `…_ends` is the token
  /// behind sequence i. UserError if the ends are not those of sequences with one token or more.
  Pairs(DatasetPtr source, std::vector<std::int64_t> source_ends, DatasetPtr target,
        std::vector<std::int64_t> target_ends);

  std::int64_t size() const { return static_cast<std::int64_t>(source_ends_.size()); }
  Interval source(std::int64_t pair) const { return span(source_ends_, pair); }
  Interval target(std::int64_t pair) const { return span(target_ends_, pair); }
  const Dataset& source_tokens() const { return *source_; }
  const Dataset& target_tokens() const { return *target_; }
  DatasetPtr target_ptr() const { return target_; }
  /// Of both sides.
  Digest digest() const;

 private:
  static Interval span(const std::vector<std::int64_t>& ends, std::int64_t pair);

  DatasetPtr source_, target_;
  std::vector<std::int64_t> source_ends_, target_ends_;
};

using PairsPtr = std::shared_ptr<const Pairs>;

/// Pairs [range) of a file or of many.
struct PairStream {
  PairsPtr pairs;
  Interval range;
  double weight = 1;
  std::string name;
};

/// Which pairs share a row.
struct Packing {
  std::vector<std::int32_t> pairs;     ///< numbers in the stream, row by row
  std::vector<std::int64_t> row_ends;  ///< in `pairs`
  std::int64_t left_out = 0;           ///< longer than a row on one side
};

/// Puts the pairs of a stream into rows of `length` tokens on each side, in an order that is a
/// function of `seed` (the stream's own order if `kind` is sequential): each pair into the first of
/// the open rows that has room on both sides; when many are open the oldest is closed. With
/// `together` = false each pair has a row of its own.
Packing pack(const PairStream& stream, std::int64_t length, std::uint64_t seed, Order::Kind kind,
             bool together);

/// Rows of one or more pairs. On each side of a row the sequences stand one after the other from
/// its begin; segments number them from 1 and are 0 behind the last; positions count from 0 in each
/// sequence. Fields, all [source_length] or [length], i32 unless said otherwise:
///   source, source_segments, source_positions;
///   tokens: what the decoder reads, id 0 and the target without its last id;
///   targets, segments, positions, weights (f32: 1, or 0 behind the last).
class PairSamples final : public Samples {
 public:
  /// UserError if no pair fits into a row.
  PairSamples(std::vector<PairStream> streams, std::int64_t length, bool together,
              std::uint64_t seed, Order::Kind kind);

  const std::vector<Field>& fields() const override { return fields_; }
  std::int64_t per_epoch() const override { return order_->per_epoch(); }
  Count count(std::int64_t epoch, std::int64_t index) const override;
  void read(std::int64_t epoch, std::int64_t index, std::span<const Part> parts) const override;
  Digest digest() const override;
  /// Target tokens of all rows.
  std::int64_t size() const override { return targets_; }
  std::string unit() const override { return "tokens"; }
  std::int64_t targets_per_sample() const override { return length_; }

  /// The pairs of a row.
  struct Row {
    int stream = 0;
    std::vector<std::int64_t> pairs;  ///< in Pairs
  };
  Row at(std::int64_t epoch, std::int64_t index) const;
  std::int64_t left_out() const;

 private:
  struct Side;
  void read_side(const Row& row, bool is_target, std::span<const Part> parts) const;

  std::vector<PairStream> streams_;
  std::vector<Packing> packings_;
  std::int64_t length_;
  std::unique_ptr<Order> order_;
  std::vector<Field> fields_;
  std::int64_t targets_ = 0;
};

}  // namespace tessera::data
