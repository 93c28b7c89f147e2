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

/// Blocks from their places, one after the other.
void pack(DType dtype, const void* from, const Blocks& blocks, void* packed) {
  std::int64_t at = 0;
  for (std::size_t i = 0; i < blocks.counts.size(); ++i) {
    copy_bytes(advance(packed, at, dtype), advance(from, blocks.offsets[i], dtype),
               bytes_for(blocks.counts[i], dtype));
    at += blocks.counts[i];
  }
}

void unpack(DType dtype, const void* packed, void* to, const Blocks& blocks) {
  std::int64_t at = 0;
  for (std::size_t i = 0; i < blocks.counts.size(); ++i) {
    copy_bytes(advance(to, blocks.offsets[i], dtype), advance(packed, at, dtype),
               bytes_for(blocks.counts[i], dtype));
    at += blocks.counts[i];
  }
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
    if (blocks.offsets[i] + blocks.counts[i] > largest_offset_) return false;
  return true;
}

void Transport::all_reduce(Calls& calls, MPI_Comm group, program::ReduceOp op, DType dtype,
                           void* buffer, std::int64_t count) {
  calls.call([=, n = as_int(count), sum = ops_.get(op, dtype)](MPI_Request& request) {
    TESSERA_MPI(MPI_Iallreduce, MPI_IN_PLACE, buffer, n, mpi_type(dtype), sum, group, &request);
  });
}

void Transport::reduce_scatter(Calls& calls, PackedBlocks& packed, MPI_Comm group, DType dtype,
                               const void* send, const Blocks& blocks, void* receive) {
  const void* from = send;
  if (blocks.offsets != Blocks::adjacent(blocks.counts).offsets) {
    void* adjacent = packed.send.reserve(bytes_for(blocks.total(), dtype));
    calls.then([=] { pack(dtype, send, blocks, adjacent); });
    from = adjacent;
  }
  calls.call([=, counts = as_int(blocks.counts)](MPI_Request& request) {
    TESSERA_MPI(MPI_Ireduce_scatter, from, receive, counts.data(), mpi_type(dtype), MPI_SUM, group,
                &request);
  });
}

void Transport::all_gather(Calls& calls, PackedBlocks& packed, MPI_Comm group, DType dtype,
                           const void* send, void* receive, const Blocks& blocks,
                           std::int64_t mine) {
  const bool direct = fits(blocks);
  const Blocks target = direct ? blocks : Blocks::adjacent(blocks.counts);
  void* into = direct ? receive : packed.receive.reserve(bytes_for(target.total(), dtype));
  TESSERA_CHECK(send || direct, "blocks in place must lie within MPI's offsets");
  calls.call([=, counts = as_int(target.counts), offsets = as_int(target.offsets),
              n = send ? as_int(mine) : 0](MPI_Request& request) {
    const MPI_Datatype type = mpi_type(dtype);
    TESSERA_MPI(MPI_Iallgatherv, send ? send : MPI_IN_PLACE, n, type, into, counts.data(),
                offsets.data(), type, group, &request);
  });
  if (!direct) calls.then([=] { unpack(dtype, into, receive, blocks); });
}

void Transport::all_to_all(Calls& calls, PackedBlocks& packed, MPI_Comm group, DType dtype,
                           const void* send, const Blocks& send_blocks, void* receive,
                           const Blocks& receive_blocks) {
  const bool send_direct = fits(send_blocks), receive_direct = fits(receive_blocks);
  const Blocks from = send_direct ? send_blocks : Blocks::adjacent(send_blocks.counts);
  const Blocks to = receive_direct ? receive_blocks : Blocks::adjacent(receive_blocks.counts);
  const void* out = send;
  if (!send_direct) {
    void* adjacent = packed.send.reserve(bytes_for(from.total(), dtype));
    calls.then([=] { pack(dtype, send, send_blocks, adjacent); });
    out = adjacent;
  }
  void* into = receive_direct ? receive : packed.receive.reserve(bytes_for(to.total(), dtype));
  calls.call([=, send_counts = as_int(from.counts), send_offsets = as_int(from.offsets),
              receive_counts = as_int(to.counts),
              receive_offsets = as_int(to.offsets)](MPI_Request& request) {
    const MPI_Datatype type = mpi_type(dtype);
    TESSERA_MPI(MPI_Ialltoallv, out, send_counts.data(), send_offsets.data(), type, into,
                receive_counts.data(), receive_offsets.data(), type, group, &request);
  });
  if (!receive_direct) calls.then([=] { unpack(dtype, into, receive, receive_blocks); });
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

void Transport::broadcast(Calls& calls, MPI_Comm group, DType dtype, void* buffer,
                          std::int64_t count) {
  calls.call([=, n = as_int(count)](MPI_Request& request) {
    TESSERA_MPI(MPI_Ibcast, buffer, n, mpi_type(dtype), 0, group, &request);
  });
}

}  // namespace tessera::comm
