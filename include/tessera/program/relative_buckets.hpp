// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "tessera/base/function.hpp"

namespace tessera::program {

/// Which learned bias a distance has (Raffel et al., "Exploring the Limits of Transfer Learning",
/// 2020): half of the buckets hold one distance each, the others grow geometrically up to
/// `max_distance`, and the last one holds all that is farther. With `both` sides half of the
/// buckets are for keys before or at the query, the others for those behind it; else keys behind
/// the query count as distance 0.
struct RelativeBuckets {
  static constexpr int kMax = 256;

  int count = 0;  ///< 0: no bias
  bool both = false;
  int one_side = 0;               ///< buckets of one side
  std::int32_t begin[kMax] = {};  ///< smallest distance in each bucket of one side
};

/// The buckets of `count` biases, 1 <= count <= kMax.
RelativeBuckets relative_buckets(int count, bool both, std::int64_t max_distance);

/// Bucket of the key at (key's position - query's position).
TESSERA_FUNCTION int bucket_of(const RelativeBuckets& buckets, std::int64_t relative) {
  std::int64_t distance = relative < 0 ? -relative : buckets.both ? relative : 0;
  const int first = buckets.both && relative > 0 ? buckets.one_side : 0;
  int low = 0, high = buckets.one_side;  // begin[low] <= distance < begin[high]
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (buckets.begin[middle] <= distance) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return first + low;
}

}  // namespace tessera::program
