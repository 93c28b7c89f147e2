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

void MpiCollectives::all_reduce(const MeshDims& dims, ReduceOp op, DType dtype,
                                std::span<void* const> buffers,
                                std::span<const std::int64_t> counts) {
  check_reducible(dtype);
  TESSERA_CHECK(buffers.size() == 1 && counts.size() == 1, "one entry for each local rank");
  const MpiGroup& group = impl_->group(dims);
  if (group.size == 1) return;
  impl_->all_reduce(group, op, dtype, buffers[0], counts[0]);
  ledger().count(CollectiveKind::all_reduce, dims,
                 {static_cast<std::int64_t>(bytes_for(counts[0], dtype))});
}

void MpiCollectives::reduce_scatter(const MeshDims& dims, DType dtype,
                                    std::span<const void* const> send,
                                    std::span<void* const> receive,
                                    std::span<const std::vector<std::int64_t>> counts) {
  check_reducible(dtype);
  TESSERA_CHECK(send.size() == 1 && receive.size() == 1 && counts.size() == 1,
                "one entry for each local rank");
  const MpiGroup& group = impl_->group(dims);
  TESSERA_CHECK(static_cast<int>(counts[0].size()) == group.size, "one count for each member");
  const Blocks blocks = Blocks::adjacent(counts[0]);
  const std::size_t bytes = bytes_for(blocks.total(), dtype);
  if (group.size == 1) return impl_->copy(receive[0], send[0], bytes);
  impl_->reduce_scatter(group, dtype, send[0], receive[0], blocks);
  ledger().count(CollectiveKind::reduce_scatter, dims, {static_cast<std::int64_t>(bytes)});
}

void MpiCollectives::all_gather(const MeshDims& dims, DType dtype,
                                std::span<const void* const> send, std::span<void* const> receive,
                                std::span<const std::vector<std::int64_t>> counts) {
  TESSERA_CHECK(send.size() == 1 && receive.size() == 1 && counts.size() == 1,
                "one entry for each local rank");
  const MpiGroup& group = impl_->group(dims);
  TESSERA_CHECK(static_cast<int>(counts[0].size()) == group.size, "one count for each member");
  const Blocks blocks = Blocks::adjacent(counts[0]);
  const std::size_t bytes = bytes_for(blocks.total(), dtype);
  if (group.size == 1) return impl_->copy(receive[0], send[0], bytes);
  impl_->all_gather(group, dtype, send[0], receive[0], blocks);
  ledger().count(CollectiveKind::all_gather, dims, {static_cast<std::int64_t>(bytes)});
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
