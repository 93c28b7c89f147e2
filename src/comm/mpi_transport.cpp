// SPDX-License-Identifier: BSD-3-Clause
#include "mpi_transport.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "local_reduce.hpp"
#include "tessera/base/error.hpp"

namespace tessera::comm {
namespace {

constexpr int kTag = 0;

std::vector<int> as_int(const std::vector<std::int64_t>& values) {
  std::vector<int> result;
  for (std::int64_t value : values) {
    TESSERA_CHECK(value >= 0 && value <= std::numeric_limits<int>::max(), "beyond MPI's int");
    result.push_back(static_cast<int>(value));
  }
  return result;
}

int as_int(std::int64_t value) {
  TESSERA_CHECK(value >= 0 && value <= std::numeric_limits<int>::max(), "beyond MPI's int");
  return static_cast<int>(value);
}

}  // namespace

Blocks Blocks::adjacent(std::vector<std::int64_t> counts) {
  Blocks blocks{std::move(counts), {}};
  blocks.offsets.resize(blocks.counts.size());
  std::exclusive_scan(blocks.counts.begin(), blocks.counts.end(), blocks.offsets.begin(),
                      std::int64_t{0});
  return blocks;
}

Blocks Blocks::part(std::int64_t begin, std::int64_t length) const {
  Blocks result;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const std::int64_t from = std::min(begin, counts[i]);
    result.counts.push_back(std::min(length, counts[i] - from));
    result.offsets.push_back(offsets[i] + from);
  }
  return result;
}

std::int64_t Blocks::total() const {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

bool Transport::fits(const Blocks& blocks) const {
  for (std::size_t i = 0; i < blocks.counts.size(); ++i)
    if (blocks.offsets[i] > largest_offset_) return false;
  return true;
}

const void* Transport::pack(DType dtype, const void* from, const Blocks& blocks,
                            Scratch& scratch) const {
  void* packed = scratch.reserve(bytes_for(blocks.total(), dtype));
  std::int64_t at = 0;
  for (std::size_t i = 0; i < blocks.counts.size(); ++i) {
    copy_bytes(advance(packed, at, dtype), advance(from, blocks.offsets[i], dtype),
               bytes_for(blocks.counts[i], dtype));
    at += blocks.counts[i];
  }
  return packed;
}

void Transport::unpack(DType dtype, const void* packed, void* to, const Blocks& blocks) const {
  std::int64_t at = 0;
  for (std::size_t i = 0; i < blocks.counts.size(); ++i) {
    copy_bytes(advance(to, blocks.offsets[i], dtype), advance(packed, at, dtype),
               bytes_for(blocks.counts[i], dtype));
    at += blocks.counts[i];
  }
}

void Transport::all_reduce(MPI_Comm group, program::ReduceOp op, DType dtype, void* buffer,
                           std::int64_t count) {
  MPI_Request request;
  TESSERA_MPI(MPI_Iallreduce, MPI_IN_PLACE, buffer, as_int(count), mpi_type(dtype),
              ops_.get(op, dtype), group, &request);
  waiter_.wait(request);
}

void Transport::reduce_scatter(MPI_Comm group, DType dtype, const void* send, const Blocks& blocks,
                               void* receive) {
  const bool adjacent = blocks.offsets == Blocks::adjacent(blocks.counts).offsets;
  if (!adjacent) send = pack(dtype, send, blocks, send_scratch_);
  const auto counts = as_int(blocks.counts);
  MPI_Request request;
  TESSERA_MPI(MPI_Ireduce_scatter, send, receive, counts.data(), mpi_type(dtype), MPI_SUM, group,
              &request);
  waiter_.wait(request);
}

void Transport::all_gather(MPI_Comm group, DType dtype, const void* send, void* receive,
                           const Blocks& blocks, std::int64_t mine) {
  const bool direct = fits(blocks);
  const Blocks target = direct ? blocks : Blocks::adjacent(blocks.counts);
  void* into = direct ? receive : receive_scratch_.reserve(bytes_for(target.total(), dtype));
  TESSERA_CHECK(send || direct, "blocks in place must lie within MPI's offsets");
  const auto counts = as_int(target.counts), offsets = as_int(target.offsets);
  const MPI_Datatype type = mpi_type(dtype);
  MPI_Request request;
  TESSERA_MPI(MPI_Iallgatherv, send ? send : MPI_IN_PLACE, send ? as_int(mine) : 0, type, into,
              counts.data(), offsets.data(), type, group, &request);
  waiter_.wait(request);
  if (!direct) unpack(dtype, into, receive, blocks);
}

void Transport::all_to_all(MPI_Comm group, DType dtype, const void* send, const Blocks& send_blocks,
                           void* receive, const Blocks& receive_blocks) {
  const bool send_direct = fits(send_blocks), receive_direct = fits(receive_blocks);
  const Blocks from = send_direct ? send_blocks : Blocks::adjacent(send_blocks.counts);
  const Blocks to = receive_direct ? receive_blocks : Blocks::adjacent(receive_blocks.counts);
  if (!send_direct) send = pack(dtype, send, send_blocks, send_scratch_);
  void* into = receive_direct ? receive : receive_scratch_.reserve(bytes_for(to.total(), dtype));
  const auto send_counts = as_int(from.counts), send_offsets = as_int(from.offsets);
  const auto receive_counts = as_int(to.counts), receive_offsets = as_int(to.offsets);
  const MPI_Datatype type = mpi_type(dtype);
  MPI_Request request;
  TESSERA_MPI(MPI_Ialltoallv, send, send_counts.data(), send_offsets.data(), type, into,
              receive_counts.data(), receive_offsets.data(), type, group, &request);
  waiter_.wait(request);
  if (!receive_direct) unpack(dtype, into, receive, receive_blocks);
}

void Transport::exchange_rest(MPI_Comm group, DType dtype, const void* send,
                              const Blocks& send_blocks, void* receive,
                              const Blocks& receive_blocks, std::int64_t done, std::int64_t piece) {
  const MPI_Datatype type = mpi_type(dtype);
  std::vector<MPI_Request> requests;
  // Messages of a pair arrive in the order in which they were sent, so one tag is enough.
  for (std::size_t i = 0; i < receive_blocks.counts.size(); ++i)
    for (std::int64_t at = done; at < receive_blocks.counts[i]; at += piece) {
      const int n = as_int(std::min(piece, receive_blocks.counts[i] - at));
      TESSERA_MPI(MPI_Irecv, advance(receive, receive_blocks.offsets[i] + at, dtype), n, type,
                  static_cast<int>(i), kTag, group, &requests.emplace_back());
    }
  for (std::size_t i = 0; i < send_blocks.counts.size(); ++i)
    for (std::int64_t at = done; at < send_blocks.counts[i]; at += piece) {
      const int n = as_int(std::min(piece, send_blocks.counts[i] - at));
      TESSERA_MPI(MPI_Isend, advance(send, send_blocks.offsets[i] + at, dtype), n, type,
                  static_cast<int>(i), kTag, group, &requests.emplace_back());
    }
  if (!requests.empty()) waiter_.wait_all(requests);
}

void Transport::broadcast(MPI_Comm group, DType dtype, void* buffer, std::int64_t count) {
  MPI_Request request;
  TESSERA_MPI(MPI_Ibcast, buffer, as_int(count), mpi_type(dtype), 0, group, &request);
  waiter_.wait(request);
}

}  // namespace tessera::comm
