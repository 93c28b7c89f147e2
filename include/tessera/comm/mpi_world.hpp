// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <vector>

#include "tessera/comm/communicator.hpp"
#include "tessera/comm/waiter.hpp"
#include "tessera/comm/world.hpp"

namespace tessera::comm {

/// The processes of an MPI communicator, of which it keeps a duplicate.
class MpiWorld final : public World {
 public:
  /// `nodes`: the node that each rank runs on.
  MpiWorld(MPI_Comm communicator, Waiter waiter, std::vector<int> nodes);
  /// The same ranks in the order of `key`, which each rank gives for itself. Collective.
  MpiWorld reordered(int key) const;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void barrier() const override;
  void broadcast(std::span<std::byte> bytes, int root = 0) const override;
  std::vector<std::byte> gather(std::span<const std::byte> bytes) const override;

  MPI_Comm communicator() const { return communicator_.get(); }
  const Waiter& waiter() const { return waiter_; }
  const std::vector<int>& nodes() const { return nodes_; }

 private:
  Communicator communicator_;
  Waiter waiter_;
  std::vector<int> nodes_;
  int rank_ = 0;
  int size_ = 1;
};

}  // namespace tessera::comm
