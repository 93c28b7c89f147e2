// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tessera/base/dtype.hpp"
#include "tessera/comm/ledger.hpp"
#include "tessera/comm/world.hpp"
#include "tessera/program/program.hpp"
#include "tessera/shape/mesh_shape.hpp"

namespace tessera::comm {

using program::ReduceOp;
using MeshDims = std::vector<int>;

/// A collective under way. Memory and lists that it was given are its own until finish() returns.
class Flight {
 public:
  virtual ~Flight() = default;
  /// Lets MPI get on with it, without waiting; true once it has landed.
  virtual bool test() = 0;
  /// Waits until it has landed. To be called before the end of its life.
  virtual void finish() = 0;
};

/// Collectives over the mesh. A process executes one rank (mpi) or all ranks in lock-step
/// (simulated); each argument list has one entry per local rank, in the order of local_ranks().
/// A group = the ranks that differ only in the given mesh dims; its members are ordered row-major
/// by those mesh dims' coordinates, mesh dims in the mesh's order. Buffers are where kernels run;
/// send and receive must not overlap. Counts are elements, may be 0, and are the same for a rank
/// wherever it appears.
class Collectives {
 public:
  virtual ~Collectives() = default;

  virtual const MeshShape& mesh() const = 0;
  virtual const std::vector<int>& local_ranks() const = 0;
  /// The processes that share the work (one if simulated), for agree and texts.
  virtual const World& world() const = 0;

  /// All ranks together, before collectives over these mesh dims in which only some of their groups
  /// take part (those of one stage).
  virtual void open_groups(const MeshDims& /*dims*/) {}

  /// In place. f32, f64, i32. counts[r] elements on local rank r, equal in a group. max and min of
  /// a NaN are NaN.
  virtual void all_reduce(const MeshDims& dims, ReduceOp op, DType dtype,
                          std::span<void* const> buffers, std::span<const std::int64_t> counts) = 0;
  /// send[r]: the pieces for all members one after the other, counts[r][member] elements each;
  /// receive[r]: the sum of the group's pieces for r.
  virtual void reduce_scatter(const MeshDims& dims, DType dtype, std::span<const void* const> send,
                              std::span<void* const> receive,
                              std::span<const std::vector<std::int64_t>> counts) = 0;
  /// Any dtype, as for the other collectives that only move data.
  /// receive[r]: all members' pieces one after the other, counts[r][member] elements each.
  virtual void all_gather(const MeshDims& dims, DType dtype, std::span<const void* const> send,
                          std::span<void* const> receive,
                          std::span<const std::vector<std::int64_t>> counts) = 0;
  virtual void all_to_all(const MeshDims& dims, DType dtype, std::span<const void* const> send,
                          std::span<const std::vector<std::int64_t>> send_counts,
                          std::span<void* const> receive,
                          std::span<const std::vector<std::int64_t>> receive_counts) = 0;
  /// As all_to_all where few pairs share anything: only pieces that are not empty travel, one
  /// message for each pair.
  virtual void neighbour_exchange(const MeshDims& dims, DType dtype,
                                  std::span<const void* const> send,
                                  std::span<const std::vector<std::int64_t>> send_counts,
                                  std::span<void* const> receive,
                                  std::span<const std::vector<std::int64_t>> receive_counts) = 0;
  /// Copies the first member's buffer to the whole group.
  virtual void broadcast(const MeshDims& dims, DType dtype, std::span<void* const> buffers,
                         std::span<const std::int64_t> counts) = 0;

  // The same as flights: all ranks start the same in the same order, and finish them in an order
  // that is the same, too. Equal to the above bit for bit. As they stand here nothing happens
  // before finish(): a simulated mesh then shows who reads too early and who writes too early.
  virtual std::unique_ptr<Flight> start_all_reduce(const MeshDims& dims, ReduceOp op, DType dtype,
                                                   std::span<void* const> buffers,
                                                   std::span<const std::int64_t> counts);
  virtual std::unique_ptr<Flight> start_reduce_scatter(
      const MeshDims& dims, DType dtype, std::span<const void* const> send,
      std::span<void* const> receive, std::span<const std::vector<std::int64_t>> counts);
  virtual std::unique_ptr<Flight> start_all_gather(
      const MeshDims& dims, DType dtype, std::span<const void* const> send,
      std::span<void* const> receive, std::span<const std::vector<std::int64_t>> counts);

  // Small host-side services over all ranks of the job. Each local rank gives one entry.

  /// Element-wise sum (in rank order) of host vectors of equal length, one per local rank.
  virtual std::vector<double> sum_over_ranks(std::span<const std::vector<double>> values) = 0;
  virtual std::vector<double> max_over_ranks(std::span<const std::vector<double>> values) = 0;
  /// Everybody's vector, by rank.
  virtual std::vector<std::vector<double>> gather_over_ranks(
      std::span<const std::vector<double>> values) = 0;

  Ledger& ledger() { return ledger_; }

 private:
  Ledger ledger_;
};

/// The ledger's rows over all ranks of the job: what `plan` says of them. Collective.
std::vector<program::CollectiveRow> rows_over_ranks(Collectives& collectives);

}  // namespace tessera::comm
