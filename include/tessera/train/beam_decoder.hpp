// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/runtime/executor.hpp"
#include "tessera/train/beam_search.hpp"

namespace tessera::train {

/// Where a beam search begins: the last known token of each row, and its position. Positions before
/// it are in the caches already (section prefill) or there are none.
struct BeamStart {
  std::vector<std::int32_t> tokens;
  std::int64_t position = 0;
};

/// Beam search of all rows of the sections decode and reorder at once; rows that are done wait for
/// the others. Returns each row's hypotheses, best first. What goes over to the host in a step is
/// 2 x beam candidates of each hypothesis; caches are reordered where they lie. Every rank does the
/// same bookkeeping with the same numbers. Collective.
std::vector<std::vector<Hypothesis>> beam_search(runtime::Executor& executor,
                                                 const BeamStart& start,
                                                 const BeamOptions& options);

}  // namespace tessera::train
