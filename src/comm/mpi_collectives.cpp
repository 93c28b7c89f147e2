// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/comm/mpi_collectives.hpp"

#include <algorithm>

#include "local_reduce.hpp"
#include "mpi_collectives_impl.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"

namespace tessera::comm {
using program::CollectiveKind;

namespace {

/// What this process sends to and receives from each member of a group.
struct Pieces {
  Blocks send, receive;
};

Pieces pieces_of(const MpiGroup& group, std::span<const void* const> send,
                 std::span<const std::vector<std::int64_t>> send_counts,
                 std::span<void* const> receive,
                 std::span<const std::vector<std::int64_t>> receive_counts) {
  TESSERA_CHECK(send.size() == 1 && receive.size() == 1 && send_counts.size() == 1 &&
                    receive_counts.size() == 1,
                "one entry for each local rank");
  Pieces pieces{Blocks::adjacent(send_counts[0]), Blocks::adjacent(receive_counts[0])};
  TESSERA_CHECK(static_cast<int>(pieces.send.counts.size()) == group.size &&
                    static_cast<int>(pieces.receive.counts.size()) == group.size,
                "one count for each member");
  return pieces;
}

void check_all_reduce(DType dtype, std::span<void* const> buffers,
                      std::span<const std::int64_t> counts) {
  check_reducible(dtype);
  TESSERA_CHECK(buffers.size() == 1 && counts.size() == 1, "one entry for each local rank");
}

/// Everybody's piece of what is scattered or gathered.
Blocks blocks_of(const MpiGroup& group, std::span<const void* const> send,
                 std::span<void* const> receive,
                 std::span<const std::vector<std::int64_t>> counts) {
  TESSERA_CHECK(send.size() == 1 && receive.size() == 1 && counts.size() == 1,
                "one entry for each local rank");
  TESSERA_CHECK(static_cast<int>(counts[0].size()) == group.size, "one count for each member");
  return Blocks::adjacent(counts[0]);
}

}  // namespace

ReduceMode parse_reduce_mode(std::string_view text) {
  if (text == "mpi") return ReduceMode::mpi;
  check_user(text == "ordered", "numerics.reduce = ", text, " is not one of mpi, ordered",
             did_you_mean(text, {"mpi", "ordered"}));
  return ReduceMode::ordered;
}

GpuAware parse_gpu_aware(std::string_view text) {
  if (text == "auto") return GpuAware::automatic;
  if (text == "on") return GpuAware::on;
  check_user(text == "off", "comm.gpu_aware = ", text, " is not one of auto, on, off",
             did_you_mean(text, {"auto", "on", "off"}));
  return GpuAware::off;
}

MpiCollectives::MpiCollectives(MeshShape mesh, const World& world, MpiCollectivesOptions options)
    : impl_(std::make_unique<Impl>(std::move(mesh), world, options)) {}
MpiCollectives::~MpiCollectives() = default;

const MeshShape& MpiCollectives::mesh() const {
  return impl_->mesh.shape();
}
const std::vector<int>& MpiCollectives::local_ranks() const {
  return impl_->local_ranks;
}
const World& MpiCollectives::world() const {
  return impl_->mesh.world();
}

void MpiCollectives::open_groups(const MeshDims& dims) {
  impl_->group(dims);
}

void MpiCollectives::all_reduce(const MeshDims& dims, ReduceOp op, DType dtype,
                                std::span<void* const> buffers,
                                std::span<const std::int64_t> counts) {
  check_all_reduce(dtype, buffers, counts);
  const MpiGroup& group = impl_->group(dims);
  if (group.size == 1) return;
  Calls calls;
  impl_->all_reduce(calls, impl_->blocking, group, op, dtype, buffers[0], counts[0]);
  calls.wait(impl_->waiter());
  book(CollectiveKind::all_reduce, dims, counts[0], dtype);
}

void MpiCollectives::reduce_scatter(const MeshDims& dims, DType dtype,
                                    std::span<const void* const> send,
                                    std::span<void* const> receive,
                                    std::span<const std::vector<std::int64_t>> counts) {
  check_reducible(dtype);
  const MpiGroup& group = impl_->group(dims);
  const Blocks blocks = blocks_of(group, send, receive, counts);
  if (group.size == 1) return impl_->copy(receive[0], send[0], bytes_for(blocks.total(), dtype));
  Calls calls;
  impl_->reduce_scatter(calls, impl_->blocking, group, dtype, send[0], receive[0], blocks);
  calls.wait(impl_->waiter());
  book(CollectiveKind::reduce_scatter, dims, blocks.total(), dtype);
}

void MpiCollectives::all_gather(const MeshDims& dims, DType dtype,
                                std::span<const void* const> send, std::span<void* const> receive,
                                std::span<const std::vector<std::int64_t>> counts) {
  const MpiGroup& group = impl_->group(dims);
  const Blocks blocks = blocks_of(group, send, receive, counts);
  if (group.size == 1) return impl_->copy(receive[0], send[0], bytes_for(blocks.total(), dtype));
  Calls calls;
  impl_->all_gather(calls, impl_->blocking, group, dtype, send[0], receive[0], blocks);
  calls.wait(impl_->waiter());
  book(CollectiveKind::all_gather, dims, blocks.total(), dtype);
}

std::unique_ptr<Flight> MpiCollectives::start_all_reduce(const MeshDims& dims, ReduceOp op,
                                                         DType dtype,
                                                         std::span<void* const> buffers,
                                                         std::span<const std::int64_t> counts) {
  check_all_reduce(dtype, buffers, counts);
  if (impl_->group(dims).size == 1)
    return Collectives::start_all_reduce(dims, op, dtype, buffers, counts);
  auto& track = impl_->track(dims);
  auto flight = std::make_unique<MpiFlight>(track, impl_->waiter());
  impl_->all_reduce(flight->calls(), track.lane, track.group, op, dtype, buffers[0], counts[0]);
  flight->test();
  book(CollectiveKind::all_reduce, dims, counts[0], dtype);
  return flight;
}

std::unique_ptr<Flight> MpiCollectives::start_reduce_scatter(
    const MeshDims& dims, DType dtype, std::span<const void* const> send,
    std::span<void* const> receive, std::span<const std::vector<std::int64_t>> counts) {
  check_reducible(dtype);
  const Blocks blocks = blocks_of(impl_->group(dims), send, receive, counts);
  if (impl_->group(dims).size == 1)
    return Collectives::start_reduce_scatter(dims, dtype, send, receive, counts);
  auto& track = impl_->track(dims);
  auto flight = std::make_unique<MpiFlight>(track, impl_->waiter());
  impl_->reduce_scatter(flight->calls(), track.lane, track.group, dtype, send[0], receive[0],
                        blocks);
  flight->test();
  book(CollectiveKind::reduce_scatter, dims, blocks.total(), dtype);
  return flight;
}

std::unique_ptr<Flight> MpiCollectives::start_all_gather(
    const MeshDims& dims, DType dtype, std::span<const void* const> send,
    std::span<void* const> receive, std::span<const std::vector<std::int64_t>> counts) {
  const Blocks blocks = blocks_of(impl_->group(dims), send, receive, counts);
  if (impl_->group(dims).size == 1)
    return Collectives::start_all_gather(dims, dtype, send, receive, counts);
  auto& track = impl_->track(dims);
  auto flight = std::make_unique<MpiFlight>(track, impl_->waiter());
  impl_->all_gather(flight->calls(), track.lane, track.group, dtype, send[0], receive[0], blocks);
  flight->test();
  book(CollectiveKind::all_gather, dims, blocks.total(), dtype);
  return flight;
}

void MpiCollectives::book(CollectiveKind kind, const MeshDims& dims, std::int64_t elements,
                          DType dtype) {
  ledger().count(kind, dims, {static_cast<std::int64_t>(bytes_for(elements, dtype))});
}

void MpiCollectives::all_to_all(const MeshDims& dims, DType dtype,
                                std::span<const void* const> send,
                                std::span<const std::vector<std::int64_t>> send_counts,
                                std::span<void* const> receive,
                                std::span<const std::vector<std::int64_t>> receive_counts) {
  const MpiGroup& group = impl_->group(dims);
  const Pieces pieces = pieces_of(group, send, send_counts, receive, receive_counts);
  const std::size_t bytes = bytes_for(pieces.send.total(), dtype);
  if (group.size == 1) return impl_->copy(receive[0], send[0], bytes);
  impl_->all_to_all(group, dtype, send[0], pieces.send, receive[0], pieces.receive);
  ledger().count(CollectiveKind::all_to_all, dims, {static_cast<std::int64_t>(bytes)});
}

void MpiCollectives::neighbour_exchange(const MeshDims& dims, DType dtype,
                                        std::span<const void* const> send,
                                        std::span<const std::vector<std::int64_t>> send_counts,
                                        std::span<void* const> receive,
                                        std::span<const std::vector<std::int64_t>> receive_counts) {
  const MpiGroup& group = impl_->group(dims);
  const Pieces pieces = pieces_of(group, send, send_counts, receive, receive_counts);
  const std::size_t bytes = bytes_for(pieces.send.total(), dtype);
  if (group.size == 1) return impl_->copy(receive[0], send[0], bytes);
  impl_->neighbour_exchange(group, dtype, send[0], pieces.send, receive[0], pieces.receive);
  const std::int64_t own = pieces.send.counts[group.rank];
  ledger().count(CollectiveKind::neighbour_exchange, dims,
                 {static_cast<std::int64_t>(bytes - bytes_for(own, dtype))},
                 {std::ranges::count_if(send_counts[0], [](auto n) { return n > 0; }) - (own > 0)});
}

void MpiCollectives::broadcast(const MeshDims& dims, DType dtype, std::span<void* const> buffers,
                               std::span<const std::int64_t> counts) {
  TESSERA_CHECK(buffers.size() == 1 && counts.size() == 1, "one entry for each local rank");
  const MpiGroup& group = impl_->group(dims);
  if (group.size > 1) impl_->broadcast(group, dtype, buffers[0], counts[0]);
}

std::vector<double> MpiCollectives::sum_over_ranks(std::span<const std::vector<double>> values) {
  TESSERA_CHECK(values.size() == 1, "one entry for each local rank");
  return world().sum(values[0]);
}

std::vector<double> MpiCollectives::max_over_ranks(std::span<const std::vector<double>> values) {
  TESSERA_CHECK(values.size() == 1, "one entry for each local rank");
  return world().max(values[0]);
}

std::vector<std::vector<double>> MpiCollectives::gather_over_ranks(
    std::span<const std::vector<double>> values) {
  TESSERA_CHECK(values.size() == 1, "one entry for each local rank");
  return world().gather_vector(values[0]);
}

std::vector<std::string> MpiCollectives::dims_across_nodes() const {
  return impl_->mesh.dims_across_nodes();
}

std::string MpiCollectives::memory_path() const {
  if (device::Exec::is_host()) return "host memory";
  return impl_->stage ? "staged through host memory" : "GPU-aware MPI";
}

}  // namespace tessera::comm
