// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/program/relative_buckets.hpp"

#include <algorithm>
#include <cmath>

#include "tessera/base/error.hpp"

namespace tessera::program {

RelativeBuckets relative_buckets(int count, bool both, std::int64_t max_distance) {
  RelativeBuckets buckets;
  TESSERA_CHECK(count >= 1 && count <= RelativeBuckets::kMax, "attention: ", count, " biases");
  buckets.count = count, buckets.both = both;
  buckets.one_side = both ? std::max(1, count / 2) : count;
  const int exact = std::max(1, buckets.one_side / 2), rest = buckets.one_side - exact;
  const double growth = static_cast<double>(max_distance) / exact;
  for (int b = 0; b < buckets.one_side; ++b) {
    double begin = b;
    if (b > exact) begin = exact * std::pow(growth, static_cast<double>(b - exact) / rest);
    // A distance that lies on the border but for rounding belongs to the bucket.
    buckets.begin[b] = static_cast<std::int32_t>(std::ceil(begin - 1e-9 * begin));
  }
  return buckets;
}

}  // namespace tessera::program
