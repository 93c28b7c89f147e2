// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/env/sum_tree.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include "support/catch.hpp"
#include "tessera/base/error.hpp"

using namespace tessera;
using tessera::env::SumTree;

TEST_CASE("a mass falls on the item whose stretch holds it") {
  for (std::int64_t items : {1, 2, 3, 5, 8, 13}) {
    SumTree tree(items);
    std::vector<double> weights;
    for (std::int64_t i = 0; i < items; ++i) {
      // Eighths, so that all sums are exact; every third weight is 0.
      weights.push_back(i % 3 == 1 ? 0 : static_cast<double>(i % 5 + 1) / 8);
      tree.set(i, weights.back());
    }
    double total = 0;
    for (double weight : weights) total += weight;
    CHECK(tree.total() == total);
    for (double mass = 0; mass < total; mass += 1.0 / 16) {
      double below = 0;
      std::int64_t expected = 0;
      while (mass >= below + weights[static_cast<std::size_t>(expected)])
        below += weights[static_cast<std::size_t>(expected++)];
      CHECK(tree.find(mass) == expected);
    }
    // A mass that rounding pushed to the end still finds an item that can be drawn.
    CHECK(tree.weight(tree.find(total)) > 0);
  }
}

TEST_CASE("sums depend on the weights alone, not on the order of changes") {
  SumTree one(1000), other(1000);
  for (std::int64_t i = 0; i < 1000; ++i) one.set(i, std::sin(static_cast<double>(i)) + 1.1);
  for (std::int64_t i = 1000; i-- > 0;) other.set(i, 1e9);
  for (std::int64_t i = 1000; i-- > 0;) other.set(i, std::sin(static_cast<double>(i)) + 1.1);
  CHECK(one.total() == other.total());
}

TEST_CASE("weights that cannot be drawn by are refused") {
  SumTree tree(4);
  CHECK_THROWS_AS(tree.find(0), Error);
  CHECK_THROWS_AS(tree.set(0, -1), Error);
  CHECK_THROWS_AS(tree.set(0, std::numeric_limits<double>::quiet_NaN()), Error);
  CHECK_THROWS_AS(tree.set(4, 1), Error);
}
