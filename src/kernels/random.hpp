// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "kernels/random_plan.hpp"
#include "tessera/device/exec.hpp"
#include "tessera/kernels/kernel.hpp"

namespace tessera::kernels {

/// Runs of consecutive indices of a tile, for key and step. The batch dim (or -1) is counted over
/// the whole optimizer step: extent `batch_total`, micro-batches one after the other.
RandomPlan plan_random(const Tile& tile, std::uint64_t key, std::uint64_t step, int batch_dim,
                       std::int64_t batch_total, std::int64_t micro);

/// f(offset in the tile, index of the run's first element) for each run.
template <class Function>
void for_each_run(const RandomPlan& plan, const Function& f) {
  std::int64_t index[8] = {};
  std::int64_t at = plan.first;
  for (std::int64_t run = 0; run < plan.runs; ++run) {
    f(run * plan.length, at);
    for (int d = plan.rank - 1; d >= 0; --d) {
      at += plan.stride[d];
      if (++index[d] < plan.extent[d]) break;
      at -= plan.stride[d] * plan.extent[d];
      index[d] = 0;
    }
  }
}

namespace portable {

void dropout(const device::Exec& exec, const RandomPlan& plan, const Tile& x, const Tile& y,
             std::uint64_t threshold, double scale);
/// y = mean + scale * draw.
void random_fill(const device::Exec& exec, const RandomPlan& plan, const Tile& y, bool normal,
                 double mean, double scale);
void fill(const device::Exec& exec, const Tile& y, double value);
/// y[i] = first + step i.
void range(const device::Exec& exec, const Tile& y, double first, double step);

}  // namespace portable
}  // namespace tessera::kernels
