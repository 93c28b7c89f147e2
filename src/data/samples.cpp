// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/data/samples.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "tessera/base/error.hpp"
#include "tessera/base/hash.hpp"
#include "tessera/base/philox.hpp"
#include "tessera/data/permutation.hpp"

namespace tessera::data {

Samples::Samples(std::vector<Stream> streams, std::int64_t length, std::uint64_t seed, Order order)
    : streams_(std::move(streams)), first_{0}, length_(length), seed_(seed), order_(order) {
  check_user(length_ > 0, "data.length is ", length_, "; a sample has at least 1 token");
  check_user(!streams_.empty(), "there is no data to take samples from; set data.path");
  for (const Stream& stream : streams_) {
    check_user(std::isfinite(stream.weight) && stream.weight > 0, "data.path: the weight of '",
               stream.tokens->name(), "' is ", stream.weight, "; it must be greater than 0");
    check_user(stream.tokens->size() >= 2, "'", stream.tokens->name(), "' holds ",
               stream.tokens->size(),
               " tokens; a sample needs 2 at least, one to see and one to foretell");
    const double taken = stream.weight * static_cast<double>(samples_of(stream));
    first_.push_back(first_.back() + std::max<std::int64_t>(1, std::llround(taken)));
  }
  per_epoch_ = first_.back();
}

std::int64_t Samples::samples_of(const Stream& stream) const {
  return (stream.tokens->size() - 1 + length_ - 1) / length_;
}

std::int64_t Samples::tokens() const {
  std::int64_t total = 0;
  for (const Stream& stream : streams_) total += stream.tokens->size();
  return total;
}

Digest Samples::digest() const {
  Digest digest;
  digest.add(static_cast<std::uint64_t>(length_));
  for (const Stream& stream : streams_)
    digest.add(stream.tokens->digest()).add(std::bit_cast<std::uint64_t>(stream.weight));
  return digest;
}

Samples::Sample Samples::at(std::int64_t epoch, std::int64_t index) const {
  TESSERA_CHECK(epoch >= 0 && index >= 0 && index < per_epoch_, "sample ", index, " of epoch ",
                epoch, " of ", per_epoch_);
  const std::uint64_t key = stream_key(seed_, hash_text("data.order"));
  const bool shuffled = order_ == Order::shuffled;
  const auto u = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };

  // Which stream this place of the epoch goes to, and which of the stream's samples. A stream is
  // gone through pass by pass, in another order each time; passes and epochs need not coincide.
  const std::int64_t slot =
      shuffled ? permute(index, per_epoch_, hash_combine(key, u(epoch))) : index;
  const auto after = std::upper_bound(first_.begin(), first_.end(), slot);
  const auto stream = static_cast<std::size_t>(after - first_.begin()) - 1;
  const std::int64_t taken = first_[stream + 1] - first_[stream];
  const std::int64_t samples = samples_of(streams_[stream]);
  const std::int64_t place = epoch * taken + slot - first_[stream];
  const std::int64_t pass = place / samples;
  const std::uint64_t stream_pass = hash_combine(hash_combine(key, stream + 1), u(pass));
  const std::int64_t number =
      shuffled ? permute(place % samples, samples, stream_pass) : place % samples;

  Sample sample;
  sample.stream = static_cast<int>(stream);
  sample.number = number;
  sample.begin = number * length_;
  sample.targets = std::min(length_, streams_[stream].tokens->size() - 1 - sample.begin);
  return sample;
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
