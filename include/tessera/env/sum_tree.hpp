// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <vector>

namespace tessera::env {

/// Weights of n items with their sum, in O(log n) for a change or a draw (the sum tree of
/// "Prioritized Experience Replay", Schaul et al. 2016). A node is the sum of its two children,
/// computed anew with each change: no error builds up, and the sums depend on the weights alone,
/// not on the order of changes.
class SumTree {
 public:
  explicit SumTree(std::int64_t items);

  std::int64_t size() const { return items_; }
  double total() const { return nodes_[1]; }
  double weight(std::int64_t item) const;
  /// Error unless the weight is finite and at least 0.
  void set(std::int64_t item, double weight);
  /// The item whose stretch of [0, total) holds `mass`, items in order; never one of weight 0.
  /// Error if the total is 0.
  std::int64_t find(double mass) const;

 private:
  std::int64_t items_;
  std::int64_t leaves_;        ///< a power of two
  std::vector<double> nodes_;  ///< children of k are 2k and 2k + 1; the root is 1
};

}  // namespace tessera::env
