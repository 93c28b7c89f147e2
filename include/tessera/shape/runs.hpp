// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/shape/shape.hpp"
#include "tessera/shape/tile.hpp"

namespace tessera {

/// A stretch of a tile's elements that are neighbours in the whole tensor too.
struct Run {
  std::int64_t global = 0;  ///< index of the first element in the tensor, row-major
  std::int64_t local = 0;   ///< and in the dense tile
  std::int64_t count = 0;
};

/// Calls `visit(Run)` for each longest run of a box, in order of both indices.
template <class Visit>
void for_each_run(const Shape& shape, const Box& box, const Visit& visit) {
  const std::int64_t total = volume(box);
  if (total == 0) return;
  // Trailing dims that the box holds whole are one run with the dim before them.
  int dim = shape.rank() - 1;
  std::int64_t count = 1;
  while (dim >= 0 && box[static_cast<std::size_t>(dim)].size() == shape[dim].size) {
    count *= shape[dim--].size;
  }
  std::int64_t stride = count;  // of dim, in elements of the tensor
  if (dim >= 0) count *= box[static_cast<std::size_t>(dim)].size();

  std::vector<std::int64_t> strides(static_cast<std::size_t>(shape.rank()), 1);
  for (int i = shape.rank() - 2; i >= 0; --i) {
    strides[static_cast<std::size_t>(i)] =
        strides[static_cast<std::size_t>(i + 1)] * shape[i + 1].size;
  }
  std::int64_t global = dim >= 0 ? box[static_cast<std::size_t>(dim)].begin * stride : 0;
  for (int i = 0; i < dim; ++i) {
    global += box[static_cast<std::size_t>(i)].begin * strides[static_cast<std::size_t>(i)];
  }
  std::vector<std::int64_t> at(static_cast<std::size_t>(dim > 0 ? dim : 0), 0);
  for (std::int64_t local = 0; local < total; local += count) {
    visit(Run{global, local, count});
    for (int i = dim - 1; i >= 0;
         --i) {  // the next index of the dims that are left, as an odometer
      const auto k = static_cast<std::size_t>(i);
      global += strides[k];
      if (++at[k] < box[k].size()) break;
      global -= strides[k] * at[k];
      at[k] = 0;
    }
  }
}

}  // namespace tessera
