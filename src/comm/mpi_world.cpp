// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/comm/mpi_world.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"

namespace tessera::comm {
namespace {

constexpr std::size_t kLargestTransfer = std::size_t{1} << 30;

Communicator duplicate(MPI_Comm of, const Waiter& waiter) {
  MPI_Comm made = MPI_COMM_NULL;
  MPI_Request request;
  TESSERA_MPI(MPI_Comm_idup, of, &made, &request);
  waiter.wait(request);
  return Communicator(made);
}

}  // namespace

MpiWorld::MpiWorld(MPI_Comm communicator, Waiter waiter, std::vector<int> nodes)
    : communicator_(duplicate(communicator, waiter)),
      waiter_(waiter),
      nodes_(std::move(nodes)),
      rank_(communicator_.rank()),
      size_(communicator_.size()) {
  TESSERA_CHECK(nodes_.size() == static_cast<std::size_t>(size_), "one node for each rank");
}

MpiWorld MpiWorld::reordered(int key) const {
  const Communicator made = Communicator::split(communicator(), 0, key);
  const std::int64_t node = nodes_[static_cast<std::size_t>(rank_)];
  MpiWorld world(made.get(), waiter_, std::vector<int>(static_cast<std::size_t>(size_)));
  const auto nodes = world.gather_integer(node);
  for (std::size_t r = 0; r < nodes.size(); ++r) world.nodes_[r] = static_cast<int>(nodes[r]);
  return world;
}

void MpiWorld::barrier() const {
  MPI_Request request;
  TESSERA_MPI(MPI_Ibarrier, communicator(), &request);
  waiter_.wait(request);
}

void MpiWorld::broadcast(std::span<std::byte> bytes, int root) const {
  while (!bytes.empty()) {
    const std::size_t n = std::min(bytes.size(), kLargestTransfer);
    MPI_Request request;
    TESSERA_MPI(MPI_Ibcast, bytes.data(), static_cast<int>(n), MPI_BYTE, root, communicator(),
                &request);
    waiter_.wait(request);
    bytes = bytes.subspan(n);
  }
}

std::vector<std::byte> MpiWorld::gather(std::span<const std::byte> bytes) const {
  TESSERA_CHECK(bytes.size() <= kLargestTransfer, "gather is for small things");
  std::vector<std::byte> all(bytes.size() * static_cast<std::size_t>(size_));
  MPI_Request request;
  TESSERA_MPI(MPI_Iallgather, bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, all.data(),
              static_cast<int>(bytes.size()), MPI_BYTE, communicator(), &request);
  waiter_.wait(request);
  return all;
}

}  // namespace tessera::comm
