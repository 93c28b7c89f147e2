// SPDX-License-Identifier: BSD-3-Clause
#include "io/team.hpp"

#include <span>

namespace tessera::io {
namespace {

constexpr std::uint64_t kHalf = 0xffffffffULL;

/// Digests as four doubles each: sums of 32-bit halves are exact for up to 2^21 ranks.
std::vector<double> halves(const std::vector<Digest>& digests) {
  std::vector<double> values;
  values.reserve(digests.size() * 4);
  for (const Digest& digest : digests) {
    for (std::uint64_t word : {digest.low, digest.high}) {
      values.push_back(static_cast<double>(word & kHalf));
      values.push_back(static_cast<double>(word >> 32));
    }
  }
  return values;
}

std::vector<Digest> joined(const std::vector<double>& values) {
  const auto word = [&](std::size_t i) {
    return static_cast<std::uint64_t>(values[i]) +
           (static_cast<std::uint64_t>(values[i + 1]) << 32);
  };
  std::vector<Digest> digests(values.size() / 4);
  for (std::size_t i = 0; i < digests.size(); ++i) digests[i] = {word(4 * i), word(4 * i + 2)};
  return digests;
}

std::vector<std::vector<double>> halves_of_each(const std::vector<std::vector<Digest>>& digests) {
  std::vector<std::vector<double>> values;
  for (const auto& of_rank : digests) values.push_back(halves(of_rank));
  return values;
}

}  // namespace

Coordinates Team::coordinates(int local_rank) const {
  return mesh().coordinates(local_ranks()[static_cast<std::size_t>(local_rank)]);
}

Status Team::agreed(const Status& status) const {
  return attempt([&] { agree(status); });
}

std::vector<std::int64_t> Team::from_leader(std::vector<std::int64_t> values) const {
  world().broadcast(std::as_writable_bytes(std::span(values)));
  return values;
}

std::vector<Digest> Team::sum(const std::vector<std::vector<Digest>>& digests) const {
  return joined(collectives_.sum_over_ranks(halves_of_each(digests)));
}

std::vector<std::vector<Digest>> Team::gather(
    const std::vector<std::vector<Digest>>& digests) const {
  std::vector<std::vector<Digest>> result;
  for (const auto& values : collectives_.gather_over_ranks(halves_of_each(digests))) {
    result.push_back(joined(values));
  }
  return result;
}

}  // namespace tessera::io
