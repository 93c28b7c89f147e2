// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/data/token_samples.hpp"

#include <algorithm>
#include <bit>

#include "tessera/base/error.hpp"

namespace tessera::data {
namespace {

// Indices of the fields; the first is the tokens'.
constexpr std::size_t kTargetsField = 1;
constexpr std::size_t kWeightsField = 2;

std::int64_t samples_of(const Stream& stream, std::int64_t length) {
  return (stream.tokens->size() - 1 + length - 1) / length;
}

Order make_order(const std::vector<Stream>& streams, std::int64_t length, std::uint64_t seed,
                 Order::Kind kind) {
  check_user(length > 0, "data.length is ", length, "; a sample has at least 1 token");
  std::vector<Order::Stream> counted;
  for (const Stream& stream : streams) {
    check_user(stream.tokens->size() >= 2, "'", stream.tokens->name(), "' holds ",
               stream.tokens->size(),
               " tokens; a sample needs 2 at least, one to see and one to foretell");
    counted.push_back({samples_of(stream, length), stream.weight, stream.tokens->name()});
  }
  return {std::move(counted), seed, kind};
}

}  // namespace

TokenSamples::TokenSamples(std::vector<Stream> streams, std::int64_t length, std::uint64_t seed,
                           Order::Kind order)
    : streams_(std::move(streams)),
      length_(length),
      order_(make_order(streams_, length, seed, order)) {
  const Shape row{{"length", length}};
  fields_ = {{"tokens", {row, DType::i32}, 0},
             {"targets", {row, DType::i32}, 0},
             {"weights", {row, DType::f32}, 0}};
}

std::int64_t TokenSamples::size() const {
  std::int64_t total = 0;
  for (const Stream& stream : streams_) total += stream.tokens->size();
  return total;
}

Digest TokenSamples::digest() const {
  Digest digest;
  digest.add(static_cast<std::uint64_t>(length_));
  for (const Stream& stream : streams_)
    digest.add(stream.tokens->digest()).add(std::bit_cast<std::uint64_t>(stream.weight));
  return digest;
}

TokenSamples::Sample TokenSamples::at(std::int64_t epoch, std::int64_t index) const {
  const Order::Place place = order_.at(epoch, index);
  Sample sample;
  sample.stream = place.stream;
  sample.number = place.item;
  sample.begin = place.item * length_;
  const auto& tokens = *streams_[static_cast<std::size_t>(place.stream)].tokens;
  sample.targets = std::min(length_, tokens.size() - 1 - sample.begin);
  return sample;
}

Samples::Count TokenSamples::count(std::int64_t epoch, std::int64_t index) const {
  const std::int64_t targets = at(epoch, index).targets;
  return {targets, static_cast<double>(targets)};
}

void TokenSamples::read(std::int64_t epoch, std::int64_t index, std::span<const Part> parts) const {
  const Sample sample = at(epoch, index);
  // One read for all: the tokens that any part wants, targets being one place on.
  Interval wanted{length_ + 1, 0};
  for (const Part& part : parts) {
    const std::int64_t end = std::min(part.box->end, sample.targets);
    if (part.field == kWeightsField || end <= part.box->begin) continue;
    const std::int64_t shift = part.field == kTargetsField ? 1 : 0;
    wanted.begin = std::min(wanted.begin, part.box->begin + shift);
    wanted.end = std::max(wanted.end, end + shift);
  }
  std::vector<std::int32_t> ids(static_cast<std::size_t>(wanted.size()));
  if (!ids.empty())
    streams_[static_cast<std::size_t>(sample.stream)].tokens->read(sample.begin + wanted.begin,
                                                                   wanted.size(), ids.data());
  for (const Part& part : parts) {
    const Interval known = intersect(*part.box, {0, sample.targets});
    if (part.field == kWeightsField) {
      std::fill_n(static_cast<float*>(part.out), known.size(), 1.0F);
    } else if (known.size() > 0) {
      const std::int64_t shift = part.field == kTargetsField ? 1 : 0;
      std::copy_n(ids.begin() + (known.begin + shift - wanted.begin), known.size(),
                  static_cast<std::int32_t*>(part.out));
    }
  }
}

void check_long_enough(const std::vector<Stream>& streams, std::int64_t length, const char* key) {
  for (const Stream& stream : streams)
    check_user(stream.tokens->size() > length, key, ": '", stream.tokens->name(), "' holds ",
               stream.tokens->size(),
               " tokens, fewer than one sample of data.length + 1 = ", length + 1,
               "; give it more text, or set data.length to ",
               std::max<std::int64_t>(1, stream.tokens->size() - 1), " or less");
}

}  // namespace tessera::data
