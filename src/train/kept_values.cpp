// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/kept_values.hpp"

#include <algorithm>

namespace tessera::train {

KeptValues::KeptValues(runtime::Executor& executor, const std::vector<std::string>& names)
    : executor_(executor) {
  const auto& stored = executor.program().variables;
  for (int v = 0; v < static_cast<int>(stored.size()); ++v) {
    const Variable& variable = stored[static_cast<std::size_t>(v)].variable;
    if (std::ranges::find(names, variable.name) == names.end()) continue;
    for (int r = 0; r < executor.local_ranks(); ++r) {
      const auto elements = static_cast<std::size_t>(volume(executor.variable_box(v, r)));
      tiles_.push_back({v, r, std::vector<char>(elements * bytes_of(variable.spec.dtype))});
    }
  }
}

void KeptValues::keep() {
  for (Tile& tile : tiles_)
    executor_.read_variable(tile.variable, tile.local_rank, tile.bytes.data());
  kept_ = true;
}

void KeptValues::put_back() {
  if (!kept_) return;
  for (const Tile& tile : tiles_)
    executor_.write_variable(tile.variable, tile.local_rank, tile.bytes.data());
}

}  // namespace tessera::train
