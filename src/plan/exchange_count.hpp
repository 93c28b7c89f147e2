// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <vector>

#include "tessera/program/program.hpp"

namespace tessera::plan {

/// Adds to `row` what exchange steps over the same mesh dims move in one run of their section,
/// exactly as ranks count it: bytes and messages of the rank that has most in all steps together,
/// and the sum over ranks. The cost grows with the ranks that cut windowed dims, not with others.
void count_exchanges(const std::vector<const program::ExchangeStep*>& steps,
                     const std::vector<program::Buffer>& buffers, const MeshShape& mesh,
                     program::CollectiveRow& row);

}  // namespace tessera::plan
