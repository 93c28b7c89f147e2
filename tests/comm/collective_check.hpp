// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/comm/collectives.hpp"

namespace tessera::test {

/// Runs every collective along every subset of the mesh's dims with uneven counts (0 among them)
/// and compares what each local rank gets with values worked out from the definition, by other
/// means than the library's. Values are whole numbers, so sums are exact in any order. With
/// `as_flights` those that can be are started, tested and finished. Returns the failures, one line
/// each.
std::vector<std::string> check_all_collectives(comm::Collectives& collectives,
                                               bool as_flights = false);

/// All subsets of 0 … rank-1.
std::vector<std::vector<int>> subsets(int rank);
/// Ranks that differ from `rank` only in these mesh dims, ascending.
std::vector<int> group_of(const MeshShape& mesh, const std::vector<int>& dims, int rank);

}  // namespace tessera::test
