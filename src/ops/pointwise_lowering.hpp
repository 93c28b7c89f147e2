// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <vector>

#include "tessera/ops/pointwise_code.hpp"
#include "tessera/program/emitter.hpp"

namespace tessera::ops {

/// Emits one pass over the elements of the outputs, all of dims `shape`, by `code`; inputs have
/// some of these dims. The planner may fuse it with its neighbours.
void emit_pointwise(program::Emitter& emitter, const PointwiseCode& code, const Shape& shape,
                    std::vector<program::BufferId> inputs, std::vector<program::BufferId> outputs);

}  // namespace tessera::ops
