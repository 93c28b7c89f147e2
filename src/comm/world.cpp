// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/comm/world.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "tessera/base/error.hpp"

namespace tessera::comm {
namespace {

/// Everybody's values (equally many), by rank.
template <class T>
std::vector<T> gather_values(const World& world, std::span<const T> values) {
  static_assert(std::is_trivially_copyable_v<T>);
  const auto bytes = world.gather(std::as_bytes(values));
  std::vector<T> all(bytes.size() / sizeof(T));
  if (!all.empty()) std::memcpy(all.data(), bytes.data(), bytes.size());
  TESSERA_CHECK(all.size() == values.size() * static_cast<std::size_t>(world.size()),
                "ranks gave different numbers of values");
  return all;
}

template <class Combine>
std::vector<double> combine_in_rank_order(const World& world, const std::vector<double>& values,
                                          const Combine& combine) {
  const auto all = gather_values(world, std::span<const double>(values));
  const std::size_t n = values.size();
  std::vector<double> result(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(n));
  for (std::size_t i = n; i < all.size(); ++i) result[i % n] = combine(result[i % n], all[i]);
  return result;
}

}  // namespace

std::string World::broadcast_text(const std::string& text, int root) const {
  std::int64_t length = static_cast<std::int64_t>(text.size());
  broadcast(std::as_writable_bytes(std::span(&length, 1)), root);
  std::string result = rank() == root ? text : std::string(static_cast<std::size_t>(length), '\0');
  broadcast(std::as_writable_bytes(std::span(result)), root);
  return result;
}

std::vector<std::string> World::gather_text(const std::string& text) const {
  const auto lengths = gather_integer(static_cast<std::int64_t>(text.size()));
  const auto longest = static_cast<std::size_t>(std::ranges::max(lengths));
  std::string padded = text;
  padded.resize(longest);
  const auto bytes = gather(std::as_bytes(std::span(padded)));
  std::vector<std::string> texts;
  for (std::size_t r = 0; r < lengths.size(); ++r)
    texts.emplace_back(reinterpret_cast<const char*>(bytes.data()) + r * longest,
                       static_cast<std::size_t>(lengths[r]));
  return texts;
}

std::vector<std::int64_t> World::gather_integer(std::int64_t value) const {
  return gather_values(*this, std::span<const std::int64_t>(&value, 1));
}

std::vector<std::vector<double>> World::gather_vector(const std::vector<double>& values) const {
  const auto all = gather_values(*this, std::span<const double>(values));
  std::vector<std::vector<double>> vectors(static_cast<std::size_t>(size()));
  for (std::size_t r = 0; r < vectors.size(); ++r) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(r * values.size());
    vectors[r].assign(begin, begin + static_cast<std::ptrdiff_t>(values.size()));
  }
  return vectors;
}

std::vector<double> World::sum(const std::vector<double>& values) const {
  return combine_in_rank_order(*this, values, [](double a, double b) { return a + b; });
}

std::vector<double> World::max(const std::vector<double>& values) const {
  return combine_in_rank_order(*this, values,
                               [](double a, double b) { return a > b || std::isnan(a) ? a : b; });
}

}  // namespace tessera::comm
