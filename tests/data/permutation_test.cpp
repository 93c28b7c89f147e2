// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/data/permutation.hpp"

#include <cmath>
#include <set>
#include <vector>

#include "support/catch.hpp"

namespace tessera::data {
namespace {

std::vector<std::int64_t> all(std::int64_t size, std::uint64_t key) {
  std::vector<std::int64_t> values;
  for (std::int64_t i = 0; i < size; ++i) values.push_back(permute(i, size, key));
  return values;
}

TEST_CASE("Each value comes exactly once, whatever the size") {
  for (std::int64_t size = 1; size <= 300; ++size)
    for (const std::uint64_t key : {0ULL, 1ULL, 0x123456789abcdefULL}) {
      std::vector<int> seen(static_cast<std::size_t>(size));
      for (const std::int64_t value : all(size, key)) {
        REQUIRE(value >= 0);
        REQUIRE(value < size);
        ++seen[static_cast<std::size_t>(value)];
      }
      REQUIRE(seen == std::vector<int>(static_cast<std::size_t>(size), 1));
    }
  for (const std::int64_t size : {4096, 4097, 100003})
    REQUIRE(std::set<std::int64_t>([&] {
              const auto values = all(size, 9);
              return std::set<std::int64_t>(values.begin(), values.end());
            }())
                .size() == static_cast<std::size_t>(size));
}

TEST_CASE("Sizes beyond 32 bits") {
  const std::int64_t size = (std::int64_t{1} << 40) + 12345;
  std::set<std::int64_t> seen;
  bool beyond = false;
  for (std::int64_t i = 0; i < 20000; ++i) {
    const std::int64_t value = permute(i * 50000000 + 7, size, 3);
    REQUIRE(value >= 0);
    REQUIRE(value < size);
    beyond = beyond || value > (std::int64_t{1} << 39);
    seen.insert(value);
  }
  CHECK(seen.size() == 20000);
  CHECK(beyond);
}

TEST_CASE("A key names one order, and keys differ") {
  CHECK(all(1000, 5) == all(1000, 5));
  CHECK(all(1000, 5) != all(1000, 6));
}

TEST_CASE("The order is shuffled: value and index are not correlated, and neighbours part") {
  for (const std::int64_t size : {1000, 4096, 10007}) {
    const auto values = all(size, 77);
    const double middle = static_cast<double>(size - 1) / 2;
    double covariance = 0, variance = 0;
    int neighbours = 0;
    for (std::int64_t i = 0; i < size; ++i) {
      const double x = static_cast<double>(i) - middle;
      covariance += x * (static_cast<double>(values[static_cast<std::size_t>(i)]) - middle);
      variance += x * x;
      if (i > 0 && std::abs(values[static_cast<std::size_t>(i)] -
                            values[static_cast<std::size_t>(i) - 1]) == 1)
        ++neighbours;
    }
    // Of a random permutation: correlation 0 with deviation 1/sqrt(size), 2 neighbours on average.
    CHECK(std::abs(covariance / variance) < 4 / std::sqrt(static_cast<double>(size)));
    CHECK(neighbours < 12);
  }
}

TEST_CASE("Every value comes first about equally often over the keys") {
  std::vector<int> counts(5);
  for (std::uint64_t key = 0; key < 5000; ++key)
    ++counts[static_cast<std::size_t>(permute(0, 5, key))];
  for (const int count : counts) CHECK(std::abs(count - 1000) < 150);  // 5 standard deviations
}

}  // namespace
}  // namespace tessera::data
