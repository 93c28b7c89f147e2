// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/data/order.hpp"

#include <algorithm>
#include <cmath>

#include "tessera/base/error.hpp"
#include "tessera/base/hash.hpp"
#include "tessera/base/philox.hpp"
#include "tessera/data/permutation.hpp"

namespace tessera::data {

Order::Order(std::vector<Stream> streams, std::uint64_t seed, Kind kind)
    : streams_(std::move(streams)), first_{0}, seed_(seed), kind_(kind) {
  check_user(!streams_.empty(), "there is no data to take samples from; set data.path");
  for (const Stream& stream : streams_) {
    check_user(std::isfinite(stream.weight) && stream.weight > 0, "data.path: the weight of '",
               stream.name, "' is ", stream.weight, "; it must be greater than 0");
    TESSERA_CHECK(stream.items > 0, "stream ", stream.name, " has no items");
    const double taken = stream.weight * static_cast<double>(stream.items);
    first_.push_back(first_.back() + std::max<std::int64_t>(1, std::llround(taken)));
  }
}

Order::Place Order::at(std::int64_t epoch, std::int64_t index) const {
  TESSERA_CHECK(epoch >= 0 && index >= 0 && index < per_epoch(), "sample ", index, " of epoch ",
                epoch, " of ", per_epoch());
  const std::uint64_t key = stream_key(seed_, hash_text("data.order"));
  const bool shuffled = kind_ == Kind::shuffled;
  const auto u = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };

  // Which stream this place of the epoch goes to, and which of the stream's items. A stream is gone
  // through pass by pass, in another order each time; passes and epochs need not coincide.
  const std::int64_t slot =
      shuffled ? permute(index, per_epoch(), hash_combine(key, u(epoch))) : index;
  const auto after = std::upper_bound(first_.begin(), first_.end(), slot);
  const auto stream = static_cast<std::size_t>(after - first_.begin()) - 1;
  const std::int64_t taken = first_[stream + 1] - first_[stream];
  const std::int64_t items = streams_[stream].items;
  const std::int64_t place = epoch * taken + slot - first_[stream];
  const std::int64_t pass = place / items;
  const std::uint64_t stream_pass = hash_combine(hash_combine(key, stream + 1), u(pass));
  const std::int64_t item = shuffled ? permute(place % items, items, stream_pass) : place % items;
  return {static_cast<int>(stream), item};
}

}  // namespace tessera::data
