// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>

#include "tessera/comm/collectives.hpp"
#include "tessera/device/exec.hpp"

namespace tessera::comm {

/// `numerics.reduce`: sums in MPI's order, or in rank order (bitwise equal to a simulated run).
enum class ReduceMode { mpi, ordered };
ReduceMode parse_reduce_mode(std::string_view text);
/// `comm.gpu_aware`: whether MPI may be given pointers to a device's memory.
enum class GpuAware { automatic, on, off };
GpuAware parse_gpu_aware(std::string_view text);

struct MpiCollectivesOptions {
  ReduceMode reduce = ReduceMode::mpi;
  GpuAware gpu_aware = GpuAware::automatic;
  /// The instance that kernels run on: waited for before MPI reads what they wrote. May be null
  /// where kernels run in the host's memory.
  const device::Exec* exec = nullptr;
  /// Largest payload of one MPI call. 0: 2 MiB inside a node, where larger calls leave the caches
  /// (3 times slower at 64 MiB with MPICH 4.0.2), 1 GiB across nodes. At most 1 GiB: counts of
  /// 2^31 bytes and more are where MPI libraries fail.
  std::int64_t piece_bytes = 0;
  /// Largest offset in elements that MPI is asked to handle; beyond it pieces go through a buffer.
  std::int64_t largest_offset = std::numeric_limits<int>::max();
};

/// Collectives between processes; each is one rank of the mesh. A payload above `piece_bytes` is
/// cut into several calls, equally many on all ranks of a group.
class MpiCollectives final : public Collectives {
 public:
  /// Collective over `world`, which must be made by MPI (Environment::world()).
  MpiCollectives(MeshShape mesh, const World& world, MpiCollectivesOptions options = {});
  ~MpiCollectives() override;

  const MeshShape& mesh() const override;
  const std::vector<int>& local_ranks() const override;
  const World& world() const override;

  void open_groups(const MeshDims& dims) override;
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

  std::unique_ptr<Flight> start_all_reduce(const MeshDims& dims, ReduceOp op, DType dtype,
                                           std::span<void* const> buffers,
                                           std::span<const std::int64_t> counts) override;
  std::unique_ptr<Flight> start_reduce_scatter(
      const MeshDims& dims, DType dtype, std::span<const void* const> send,
      std::span<void* const> receive, std::span<const std::vector<std::int64_t>> counts) override;
  std::unique_ptr<Flight> start_all_gather(
      const MeshDims& dims, DType dtype, std::span<const void* const> send,
      std::span<void* const> receive, std::span<const std::vector<std::int64_t>> counts) override;

  std::vector<double> sum_over_ranks(std::span<const std::vector<double>> values) override;
  std::vector<double> max_over_ranks(std::span<const std::vector<double>> values) override;
  std::vector<std::vector<double>> gather_over_ranks(
      std::span<const std::vector<double>> values) override;

  /// Names of the mesh dims whose groups span several nodes.
  std::vector<std::string> dims_across_nodes() const;
  /// "host memory", "GPU-aware MPI" or "staged through host memory": for the header.
  std::string memory_path() const;

 private:
  friend class MpiFlight;
  void book(program::CollectiveKind kind, const MeshDims& dims, std::int64_t elements, DType dtype);

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera::comm
