// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "io/team.hpp"
#include "tessera/io/checkpoint.hpp"

namespace tessera::io {

/// A stored tensor and who takes it.
struct Assignment {
  const Checkpoint::Tensor* stored = nullptr;
  Placement placement;
  std::function<void(int local_rank, const void* tile)> put;  ///< in the stored dtype
};

/// Pairs all tensors by path; UserError if one does not fit.
std::vector<Assignment> match_all(const Checkpoint& checkpoint,
                                  std::span<const LoadedTensor> tensors,
                                  const std::string& ignored);

/// Collective: reads, broadcasts, checks. Returns "" or, the same on all ranks, why the file is not
/// whole.
std::string load_tensors(const Team& team, const Checkpoint& checkpoint,
                         std::span<const Assignment> assignments);

}  // namespace tessera::io
