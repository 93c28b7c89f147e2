// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <map>
#include <memory>

#include "tessera/comm/collectives.hpp"
#include "tessera/device/exec.hpp"

namespace tessera::comm {

/// All ranks of a mesh in one process, in lock-step: any mesh, no launcher. Sums are in rank order,
/// bitwise equal to MpiCollectives with ReduceMode::ordered. Books the same ledger.
class SimulatedCollectives final : public Collectives {
 public:
  /// `exec`: the instance that kernels run on; may be null where they run in the host's memory.
  explicit SimulatedCollectives(MeshShape mesh, const device::Exec* exec = nullptr);

  const MeshShape& mesh() const override { return mesh_; }
  const std::vector<int>& local_ranks() const override { return ranks_; }
  const World& world() const override { return world_; }

  void all_reduce(const MeshDims& dims, ReduceOp op, DType dtype, std::span<void* const> buffers,
                  std::span<const std::int64_t> counts) override;
  void reduce_scatter(const MeshDims& dims, DType dtype, std::span<const void* const> send,
                      std::span<void* const> receive,
                      std::span<const std::vector<std::int64_t>> counts) override;
  void all_gather(const MeshDims& dims, DType dtype, std::span<const void* const> send,
                  std::span<void* const> receive,
                  std::span<const std::vector<std::int64_t>> counts) override;
  void all_to_all(const MeshDims& dims, DType dtype, std::span<const void* const> send,
                  std::span<const std::vector<std::int64_t>> send_counts,
                  std::span<void* const> receive,
                  std::span<const std::vector<std::int64_t>> receive_counts) override;
  void neighbour_exchange(const MeshDims& dims, DType dtype, std::span<const void* const> send,
                          std::span<const std::vector<std::int64_t>> send_counts,
                          std::span<void* const> receive,
                          std::span<const std::vector<std::int64_t>> receive_counts) override;
  void broadcast(const MeshDims& dims, DType dtype, std::span<void* const> buffers,
                 std::span<const std::int64_t> counts) override;

  std::vector<double> sum_over_ranks(std::span<const std::vector<double>> values) override;
  std::vector<double> max_over_ranks(std::span<const std::vector<double>> values) override;
  std::vector<std::vector<double>> gather_over_ranks(
      std::span<const std::vector<double>> values) override;

 private:
  using Group = std::vector<int>;
  /// All groups along these mesh dims, members in group order.
  const std::vector<Group>& groups(const MeshDims& dims);
  /// Brings each pair's piece from one to the other.
  void deliver(const MeshDims& dims, DType dtype, std::span<const void* const> send,
               std::span<const std::vector<std::int64_t>> send_counts,
               std::span<void* const> receive,
               std::span<const std::vector<std::int64_t>> receive_counts);

  MeshShape mesh_;
  const device::Exec* exec_;
  std::vector<int> ranks_;
  SingleProcess world_;
  std::map<MeshDims, std::vector<Group>> groups_;
};

}  // namespace tessera::comm
