// SPDX-License-Identifier: BSD-3-Clause
#include "node_order.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

namespace tessera::comm {

NodeOrder find_node_order(MPI_Comm of) {
  const Communicator node = Communicator::split_by_node(of);
  int rank = 0, size = 0;
  TESSERA_MPI(MPI_Comm_rank, of, &rank);
  TESSERA_MPI(MPI_Comm_size, of, &size);
  int leader = rank;  // the lowest rank of the node stands for the node
  TESSERA_MPI(MPI_Bcast, &leader, 1, MPI_INT, 0, node.get());
  const int mine[2] = {leader, node.rank()};
  std::vector<int> all(2 * static_cast<std::size_t>(size));
  TESSERA_MPI(MPI_Allgather, mine, 2, MPI_INT, all.data(), 2, MPI_INT, of);

  std::map<int, int> numbers;
  for (std::size_t r = 0; r < all.size(); r += 2) numbers.emplace(all[r], 0);
  int next = 0;
  for (auto& [unused, number] : numbers) number = next++;

  NodeOrder order;
  for (std::size_t r = 0; r < all.size(); r += 2) {
    order.nodes.push_back(numbers.at(all[r]));
    order.local.push_back(all[r + 1]);
  }
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  std::ranges::sort(ranks, {}, [&](int r) {
    const auto i = static_cast<std::size_t>(r);
    return std::tuple(order.nodes[i], order.local[i]);
  });
  order.position.resize(ranks.size());
  for (std::size_t i = 0; i < ranks.size(); ++i)
    order.position[static_cast<std::size_t>(ranks[i])] = static_cast<int>(i);
  return order;
}

Communicator sort_by_node(MPI_Comm of, const NodeOrder& order) {
  int rank = 0;
  TESSERA_MPI(MPI_Comm_rank, of, &rank);
  return Communicator::split(of, 0, order.position[static_cast<std::size_t>(rank)]);
}

}  // namespace tessera::comm
