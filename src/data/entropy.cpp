// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/data/entropy.hpp"

#include <algorithm>
#include <cmath>

#include "tessera/base/error.hpp"

namespace tessera::data {
namespace {

std::vector<std::int64_t> count_tokens(const std::vector<Stream>& streams, std::int64_t vocab,
                                       std::int64_t limit) {
  constexpr std::int64_t kPiece = std::int64_t{1} << 16;
  std::vector<std::int64_t> counts(static_cast<std::size_t>(vocab));
  std::vector<std::int32_t> ids(static_cast<std::size_t>(kPiece));
  for (const Stream& stream : streams) {
    const std::int64_t end = std::min(limit, stream.tokens->size());
    for (std::int64_t at = 0; at < end; at += kPiece) {
      const std::int64_t count = std::min(kPiece, end - at);
      stream.tokens->read(at, count, ids.data());
      for (std::int64_t i = 0; i < count; ++i)
        ++counts.at(static_cast<std::size_t>(ids[static_cast<std::size_t>(i)]));
    }
  }
  return counts;
}

double sum(const std::vector<std::int64_t>& counts) {
  double total = 0;
  for (const std::int64_t count : counts) total += static_cast<double>(count);
  return total;
}

}  // namespace

double unigram_nats(const std::vector<Stream>& train, const std::vector<Stream>& validation,
                    std::int64_t vocab, std::int64_t limit) {
  const auto seen = count_tokens(train, vocab, limit);
  const auto asked = count_tokens(validation, vocab, limit);
  const double seen_total = sum(seen) + static_cast<double>(vocab);
  const double asked_total = sum(asked);
  check_user(asked_total > 0, "there are no validation tokens to measure the text by");
  double nats = 0;
  for (std::size_t id = 0; id < asked.size(); ++id) {
    if (asked[id] == 0) continue;
    const double probability = (static_cast<double>(seen[id]) + 1) / seen_total;
    nats -= static_cast<double>(asked[id]) * std::log(probability);
  }
  return nats / asked_total;
}

}  // namespace tessera::data
