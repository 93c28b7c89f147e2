// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/env/sum_tree.hpp"

#include <bit>
#include <cmath>

#include "tessera/base/error.hpp"

namespace tessera::env {

SumTree::SumTree(std::int64_t items) : items_(items) {
  TESSERA_CHECK(items >= 1, "a sum tree of ", items, " items");
  leaves_ = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(items)));
  nodes_.assign(static_cast<std::size_t>(2 * leaves_), 0.0);
}

double SumTree::weight(std::int64_t item) const {
  return nodes_[static_cast<std::size_t>(leaves_ + item)];
}

void SumTree::set(std::int64_t item, double weight) {
  TESSERA_CHECK(item >= 0 && item < items_, "item ", item, " of ", items_);
  TESSERA_CHECK(std::isfinite(weight) && weight >= 0, "a weight of ", weight);
  auto node = static_cast<std::size_t>(leaves_ + item);
  nodes_[node] = weight;
  for (node /= 2; node >= 1; node /= 2) nodes_[node] = nodes_[2 * node] + nodes_[2 * node + 1];
}

std::int64_t SumTree::find(double mass) const {
  TESSERA_CHECK(total() > 0, "a draw from weights that are all 0");
  std::size_t node = 1;
  while (node < static_cast<std::size_t>(leaves_)) {
    node *= 2;
    // Rounding may carry a mass past the last weight: an empty half is never entered.
    if (mass >= nodes_[node] && nodes_[node + 1] > 0) {
      mass -= nodes_[node];
      ++node;
    } else if (nodes_[node] == 0) {
      ++node;
    }
  }
  return static_cast<std::int64_t>(node) - leaves_;
}

}  // namespace tessera::env
