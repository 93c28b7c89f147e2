// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <mpi.h>

#include <vector>

#include "tessera/comm/communicator.hpp"

namespace tessera::comm {

/// Where the ranks of a communicator run.
struct NodeOrder {
  std::vector<int> nodes;  ///< node of each rank, numbered from 0 by their lowest ranks
  std::vector<int> local;  ///< rank among the ranks of its node
  /// Place of each rank when sorted by (node, local).
  std::vector<int> position;
};

/// Collective over `of`.
NodeOrder find_node_order(MPI_Comm of);
/// The same ranks sorted by (node, local).
Communicator sort_by_node(MPI_Comm of, const NodeOrder& order);

}  // namespace tessera::comm
