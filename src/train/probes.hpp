// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <vector>

#include "tessera/comm/collectives.hpp"
#include "tessera/device/exec.hpp"
#include "tessera/plan/fit.hpp"

namespace tessera::train {

/// Times every local step of small made-up trainings (matrix products of many shapes, attention,
/// convolutions, norms, embeddings, updates, in f32 and bf16) as the Executor runs them on one
/// rank. `start` is called before each of them, so that several ranks can begin together. Takes
/// about `seconds`.
std::vector<plan::Measured> measure_work(const device::Exec& exec, double seconds,
                                         const std::function<void()>& start);

/// Times the collectives over all ranks, each by size. Collective.
std::vector<plan::MeasuredCollective> measure_collectives(comm::Collectives& collectives,
                                                          const device::Exec& exec);

}  // namespace tessera::train
