// SPDX-License-Identifier: BSD-3-Clause
#include "step_runner.hpp"

#include "tessera/base/error.hpp"
#include "tessera/kernels/copy_box.hpp"

namespace tessera::runtime {
namespace {

void run_copies(const device::Exec& exec, const std::vector<BoxCopy>& copies) {
  for (const auto& copy : copies)
    kernels::copy_box(exec, copy.to, copy.from, copy.rank, copy.extents, copy.to_strides,
                      copy.from_strides, copy.element_bytes);
}

void run_sums(const device::Exec& exec, const std::vector<BoxCopy>& sums, DType dtype) {
  for (const auto& sum : sums)
    kernels::add_box(exec, sum.to, sum.from, sum.rank, sum.extents, sum.to_strides,
                     sum.from_strides, dtype);
}

}  // namespace

/// A collective of other stages counts as a call here too, so that all ranks' books have the same
/// rows.
void StepRunner::book_absence(const program::Step& step) const {
  using program::CollectiveKind;
  const auto dims = program::mesh_dims_of(step);
  if (dims.empty() || program_.mesh.group_size(dims) == 1) return;
  const std::vector<std::int64_t> none(places_.arenas.size(), 0);
  CollectiveKind kind = CollectiveKind::neighbour_exchange;
  if (std::holds_alternative<program::AllReduceStep>(step)) kind = CollectiveKind::all_reduce;
  if (const auto* relayout = std::get_if<program::RelayoutStep>(&step)) kind = relayout->kind;
  collectives_.ledger().count(kind, dims, none, none);
}

/// Messages are sent by the host: what kernels on a device have packed must be there.
void StepRunner::before_messages() const {
  if (!device::Exec::is_host()) exec_.fence();
}

void StepRunner::run(const program::Step& step, const PreparedStep& prepared,
                     const std::vector<bool>& takes_part, const kernels::Feeds& feeds) {
  if (const auto* kernel = std::get_if<PreparedKernel>(&prepared)) {
    run_kernel(*kernel, takes_part, feeds);
  } else if (const auto* local = std::get_if<PreparedLocal>(&prepared)) {
    run_local(*local, takes_part);
  } else if (std::holds_alternative<PreparedAllReduce>(prepared)) {
    run_all_reduce(step, prepared);
  } else if (std::holds_alternative<PreparedRelayout>(prepared)) {
    run_relayout(step, prepared);
  } else if (std::holds_alternative<PreparedFinish>(prepared)) {
    finish(std::get<program::FinishStep>(step));
  } else if (const auto* ring = std::get_if<PreparedRing>(&prepared)) {
    move({std::get<program::RingStep>(step).mesh_dim}, *ring);
  } else if (const auto* transfer = std::get_if<PreparedTransfer>(&prepared)) {
    move({std::get<program::TransferStep>(step).mesh_dim}, *transfer);
  } else {
    run_exchange(std::get<program::ExchangeStep>(step), std::get<PreparedExchange>(prepared));
  }
}

void StepRunner::run_kernel(const PreparedKernel& kernel, const std::vector<bool>& takes_part,
                            const kernels::Feeds& feeds) const {
  for (std::size_t r = 0; r < kernel.ranks.size(); ++r) {
    if (!takes_part[r]) continue;
    const auto& rank = kernel.ranks[r];
    kernel.kernel(
        exec_, {*kernel.attributes, rank.inputs.data(), static_cast<int>(rank.inputs.size()),
                rank.outputs.data(), static_cast<int>(rank.outputs.size()), rank.workspace, feeds,
                places_.coordinates[r].data()});
  }
}

void StepRunner::run_local(const PreparedLocal& local, const std::vector<bool>& takes_part) const {
  for (std::size_t r = 0; r < local.ranks.size(); ++r) {
    const auto& rank = local.ranks[r];
    if (!takes_part[r]) continue;
    if (rank.zero)
      kernels::set_zero(exec_, rank.copy.to, rank.bytes);
    else
      run_copies(exec_, {rank.copy});
  }
}

/// Along a ring or from stage to stage.
void StepRunner::move(const comm::MeshDims& dims, const PreparedRelayout& prepared) const {
  for (const auto& copies : prepared.pack) run_copies(exec_, copies);
  before_messages();
  collectives_.neighbour_exchange(dims, prepared.dtype, prepared.send, prepared.send_counts,
                                  prepared.receive, prepared.receive_counts);
  for (const auto& copies : prepared.unpack) run_copies(exec_, copies);
}

void StepRunner::run_all_reduce(const program::Step& step, const PreparedStep& prepared) {
  const auto& plan = std::get<program::AllReduceStep>(step);
  const auto& reduce = std::get<PreparedAllReduce>(prepared);
  for (const auto& copies : reduce.pack) run_copies(exec_, copies);
  before_messages();
  if (plan.flight >= 0)
    return flights_.add(step, prepared,
                        collectives_.start_all_reduce(plan.mesh_dims, plan.op, reduce.dtype,
                                                      reduce.data, reduce.counts));
  collectives_.all_reduce(plan.mesh_dims, plan.op, reduce.dtype, reduce.data, reduce.counts);
  for (const auto& copies : reduce.unpack) run_copies(exec_, copies);
}

void StepRunner::run_relayout(const program::Step& step, const PreparedStep& prepared) {
  const auto& plan = std::get<program::RelayoutStep>(step);
  const auto& relayout = std::get<PreparedRelayout>(prepared);
  const comm::MeshDims dims{plan.mesh_dim};
  for (const auto& copies : relayout.pack) run_copies(exec_, copies);
  before_messages();
  if (plan.flight >= 0) return flights_.add(step, prepared, start_relayout(plan, relayout));
  switch (plan.kind) {
    case program::CollectiveKind::reduce_scatter:
      collectives_.reduce_scatter(dims, relayout.dtype, relayout.send, relayout.receive,
                                  relayout.send_counts);
      break;
    case program::CollectiveKind::all_gather:
      collectives_.all_gather(dims, relayout.dtype, relayout.send, relayout.receive,
                              relayout.receive_counts);
      break;
    default:
      collectives_.all_to_all(dims, relayout.dtype, relayout.send, relayout.send_counts,
                              relayout.receive, relayout.receive_counts);
  }
  for (const auto& copies : relayout.unpack) run_copies(exec_, copies);
}

std::unique_ptr<comm::Flight> StepRunner::start_relayout(const program::RelayoutStep& step,
                                                         const PreparedRelayout& prepared) {
  const comm::MeshDims dims{step.mesh_dim};
  if (step.kind == program::CollectiveKind::reduce_scatter)
    return collectives_.start_reduce_scatter(dims, prepared.dtype, prepared.send, prepared.receive,
                                             prepared.send_counts);
  TESSERA_CHECK(step.kind == program::CollectiveKind::all_gather, step.label,
                ": an all_to_all is no flight");
  return collectives_.start_all_gather(dims, prepared.dtype, prepared.send, prepared.receive,
                                       prepared.receive_counts);
}

void StepRunner::finish(const program::FinishStep& step) {
  const PreparedStep& start = flights_.finish(step);
  const auto* reduce = std::get_if<PreparedAllReduce>(&start);
  const auto& unpack = reduce ? reduce->unpack : std::get<PreparedRelayout>(start).unpack;
  for (const auto& copies : unpack) run_copies(exec_, copies);
}

void StepRunner::run_exchange(const program::ExchangeStep& step,
                              const PreparedExchange& prepared) const {
  for (const auto& rank : prepared.ranks) {
    run_copies(exec_, rank.pack);
    for (const auto& stretch : rank.fill)
      kernels::fill_box(exec_, stretch.to, stretch.rank, stretch.extents, stretch.to_strides,
                        prepared.dtype, step.fill);
    run_copies(exec_, rank.own);
    run_sums(exec_, rank.add_own, prepared.dtype);
  }
  if (!step.mesh_dims.empty()) {
    std::vector<const void*> send;
    std::vector<void*> receive;
    std::vector<std::vector<std::int64_t>> send_counts, receive_counts;
    for (const auto& rank : prepared.ranks) {
      send.push_back(rank.send);
      receive.push_back(rank.receive);
      send_counts.push_back(rank.send_counts);
      receive_counts.push_back(rank.receive_counts);
    }
    before_messages();
    collectives_.neighbour_exchange(step.mesh_dims, prepared.dtype, send, send_counts, receive,
                                    receive_counts);
  }
  for (const auto& rank : prepared.ranks) {
    run_copies(exec_, rank.unpack);
    run_sums(exec_, rank.add, prepared.dtype);
  }
}

}  // namespace tessera::runtime
