// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/data/dataset.hpp"
#include "tessera/data/order.hpp"
#include "tessera/data/samples.hpp"

namespace tessera::data {

/// One source of token samples; see Order::Stream for the weight.
struct Stream {
  DatasetPtr tokens;
  double weight = 1;
};

/// Streams cut into samples for language models. Sample s of a stream has the tokens [s * length,
/// (s + 1) * length] : `length` inputs and, shifted by one, their targets. So each token but the
/// first is a target in exactly one sample. Fields tokens, targets (i32) and weights (f32: 1, or 0
/// behind a stream's end), all [length].
class TokenSamples final : public Samples {
 public:
  /// UserError if there is no stream, or one without a single target, or a weight is not positive.
  TokenSamples(std::vector<Stream> streams, std::int64_t length, std::uint64_t seed,
               Order::Kind order);

  const std::vector<Field>& fields() const override { return fields_; }
  std::int64_t per_epoch() const override { return order_.per_epoch(); }
  Count count(std::int64_t epoch, std::int64_t index) const override;
  void read(std::int64_t epoch, std::int64_t index, std::span<const Part> parts) const override;
  Digest digest() const override;
  std::int64_t size() const override;
  std::string unit() const override { return "tokens"; }
  std::int64_t targets_per_sample() const override { return length_; }

  /// Where a sample lies.
  struct Sample {
    int stream = 0;
    std::int64_t number = 0;   ///< of the sample in its stream
    std::int64_t begin = 0;    ///< its first token
    std::int64_t targets = 0;  ///< of `length` at most; fewer at a stream's end
  };
  Sample at(std::int64_t epoch, std::int64_t index) const;

 private:
  std::vector<Stream> streams_;
  std::int64_t length_;
  Order order_;
  std::vector<Field> fields_;
};

/// Throws UserError unless every stream holds one whole sample of `length` + 1 tokens; `key` names
/// the deck key in the message.
void check_long_enough(const std::vector<Stream>& streams, std::int64_t length, const char* key);

}  // namespace tessera::data
