// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/comm/simulated_collectives.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "local_reduce.hpp"
#include "staging.hpp"
#include "tessera/base/error.hpp"

namespace tessera::comm {
namespace {

using program::CollectiveKind;
using Counts = std::span<const std::vector<std::int64_t>>;

// Elements that are reduced at a time: the running sum stays in the first-level cache.
constexpr std::int64_t kBlock = 2048;

std::int64_t total(const std::vector<std::int64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

std::int64_t offset(const std::vector<std::int64_t>& counts, std::size_t member) {
  return std::accumulate(counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(member),
                         std::int64_t{0});
}

std::vector<std::int64_t> total_bytes(Counts counts, DType dtype) {
  std::vector<std::int64_t> bytes;
  for (const auto& c : counts)
    bytes.push_back(static_cast<std::int64_t>(bytes_for(total(c), dtype)));
  return bytes;
}

/// All ranks' buffers as the host can reach them.
class HostBuffers {
 public:
  HostBuffers(const device::Exec* exec, std::size_t ranks)
      : staging_(!device::Exec::is_host(), exec), scratch_(ranks) {
    staging_.fence();
  }
  const void* read(std::size_t rank, const void* from, std::int64_t count, DType dtype) {
    return staging_.read(scratch_[rank], from, bytes_for(count, dtype));
  }
  void* place(std::size_t rank, void* to, std::int64_t count, DType dtype) {
    return staging_.place(scratch_[rank], to, bytes_for(count, dtype));
  }
  void* update(std::size_t rank, void* buffer, std::int64_t count, DType dtype) {
    read(rank, buffer, count, dtype);
    return place(rank, buffer, count, dtype);
  }
  void put(void* to, const void* placed, std::int64_t count, DType dtype) const {
    staging_.put(to, placed, bytes_for(count, dtype));
  }

 private:
  Staging staging_;
  std::vector<Scratch> scratch_;
};

std::size_t at(int rank) {
  return static_cast<std::size_t>(rank);
}

void check_counts(Counts counts, const std::vector<int>& group) {
  for (int rank : group)
    TESSERA_CHECK(
        counts[at(rank)].size() == group.size() && counts[at(rank)] == counts[at(group[0])],
        "one count for each member, the same on all members");
}

}  // namespace

SimulatedCollectives::SimulatedCollectives(MeshShape mesh, const device::Exec* exec)
    : mesh_(std::move(mesh)), exec_(exec), ranks_(static_cast<std::size_t>(mesh_.size())) {
  std::iota(ranks_.begin(), ranks_.end(), 0);
}

const std::vector<SimulatedCollectives::Group>& SimulatedCollectives::groups(const MeshDims& dims) {
  const auto found = groups_.find(dims);
  if (found != groups_.end()) return found->second;
  std::map<int, Group> by_first;
  for (int rank : ranks_) {
    Coordinates first = mesh_.coordinates(rank);
    for (int dim : dims) first[at(dim)] = 0;
    // Ranks ascend row-major in all mesh dims, so also in those of the group.
    by_first[static_cast<int>(mesh_.rank_of(first))].push_back(rank);
  }
  std::vector<Group> groups;
  for (auto& [first, group] : by_first) groups.push_back(std::move(group));
  return groups_.emplace(dims, std::move(groups)).first->second;
}

void SimulatedCollectives::all_reduce(const MeshDims& dims, ReduceOp op, DType dtype,
                                      std::span<void* const> buffers,
                                      std::span<const std::int64_t> counts) {
  check_reducible(dtype);
  TESSERA_CHECK(buffers.size() == ranks_.size() && counts.size() == ranks_.size(),
                "one entry for each local rank");
  if (mesh_.group_size(dims) == 1) return;
  HostBuffers host(exec_, ranks_.size());
  std::vector<std::int64_t> bytes;
  for (std::int64_t count : counts)
    bytes.push_back(static_cast<std::int64_t>(bytes_for(count, dtype)));
  for (const Group& group : groups(dims)) {
    const std::int64_t count = counts[at(group[0])];
    std::vector<void*> views;
    for (int rank : group) {
      TESSERA_CHECK(counts[at(rank)] == count, "all_reduce of unlike counts");
      views.push_back(host.update(at(rank), buffers[at(rank)], count, dtype));
    }
    for (std::int64_t begin = 0; begin < count; begin += kBlock) {
      const std::int64_t n = std::min(kBlock, count - begin);
      void* sum = advance(views[0], begin, dtype);
      for (std::size_t i = 1; i < views.size(); ++i)
        combine(op, dtype, sum, advance(views[i], begin, dtype), n);
      for (std::size_t i = 1; i < views.size(); ++i)
        copy_bytes(advance(views[i], begin, dtype), sum, bytes_for(n, dtype));
    }
    for (std::size_t i = 0; i < views.size(); ++i)
      host.put(buffers[at(group[i])], views[i], count, dtype);
  }
  ledger().count(CollectiveKind::all_reduce, dims, bytes);
}

void SimulatedCollectives::reduce_scatter(const MeshDims& dims, DType dtype,
                                          std::span<const void* const> send,
                                          std::span<void* const> receive, Counts counts) {
  check_reducible(dtype);
  TESSERA_CHECK(send.size() == ranks_.size() && receive.size() == ranks_.size() &&
                    counts.size() == ranks_.size(),
                "one entry for each local rank");
  HostBuffers in(exec_, ranks_.size()), out(exec_, ranks_.size());
  for (const Group& group : groups(dims)) {
    check_counts(counts, group);
    const auto& pieces = counts[at(group[0])];
    std::vector<const void*> views;
    for (int rank : group) views.push_back(in.read(at(rank), send[at(rank)], total(pieces), dtype));
    for (std::size_t m = 0; m < group.size(); ++m) {
      const std::int64_t begin = offset(pieces, m), count = pieces[m];
      void* target = receive[at(group[m])];
      void* sum = out.place(at(group[m]), target, count, dtype);
      copy_bytes(sum, advance(views[0], begin, dtype), bytes_for(count, dtype));
      for (std::size_t i = 1; i < views.size(); ++i)
        combine(ReduceOp::sum, dtype, sum, advance(views[i], begin, dtype), count);
      out.put(target, sum, count, dtype);
    }
  }
  if (mesh_.group_size(dims) > 1)
    ledger().count(CollectiveKind::reduce_scatter, dims, total_bytes(counts, dtype));
}

void SimulatedCollectives::all_gather(const MeshDims& dims, DType dtype,
                                      std::span<const void* const> send,
                                      std::span<void* const> receive, Counts counts) {
  TESSERA_CHECK(send.size() == ranks_.size() && receive.size() == ranks_.size() &&
                    counts.size() == ranks_.size(),
                "one entry for each local rank");
  HostBuffers in(exec_, ranks_.size()), out(exec_, ranks_.size());
  for (const Group& group : groups(dims)) {
    check_counts(counts, group);
    const auto& pieces = counts[at(group[0])];
    std::vector<const void*> views;
    for (std::size_t m = 0; m < group.size(); ++m)
      views.push_back(in.read(at(group[m]), send[at(group[m])], pieces[m], dtype));
    for (int rank : group) {
      void* whole = out.place(at(rank), receive[at(rank)], total(pieces), dtype);
      std::int64_t begin = 0;
      for (std::size_t m = 0; m < group.size(); ++m) {
        copy_bytes(advance(whole, begin, dtype), views[m], bytes_for(pieces[m], dtype));
        begin += pieces[m];
      }
      out.put(receive[at(rank)], whole, total(pieces), dtype);
    }
  }
  if (mesh_.group_size(dims) > 1)
    ledger().count(CollectiveKind::all_gather, dims, total_bytes(counts, dtype));
}

void SimulatedCollectives::deliver(const MeshDims& dims, DType dtype,
                                   std::span<const void* const> send, Counts send_counts,
                                   std::span<void* const> receive, Counts receive_counts) {
  TESSERA_CHECK(send.size() == ranks_.size() && receive.size() == ranks_.size() &&
                    send_counts.size() == ranks_.size() && receive_counts.size() == ranks_.size(),
                "one entry for each local rank");
  HostBuffers in(exec_, ranks_.size()), out(exec_, ranks_.size());
  for (const Group& group : groups(dims)) {
    std::vector<const void*> views;
    for (int rank : group) {
      TESSERA_CHECK(send_counts[at(rank)].size() == group.size() &&
                        receive_counts[at(rank)].size() == group.size(),
                    "one count for each member");
      views.push_back(in.read(at(rank), send[at(rank)], total(send_counts[at(rank)]), dtype));
    }
    for (std::size_t to = 0; to < group.size(); ++to) {
      const auto& expected = receive_counts[at(group[to])];
      void* target = receive[at(group[to])];
      void* all = out.place(at(group[to]), target, total(expected), dtype);
      std::int64_t begin = 0;
      for (std::size_t from = 0; from < group.size(); ++from) {
        const auto& sent = send_counts[at(group[from])];
        TESSERA_CHECK(sent[to] == expected[from], "rank ", group[from], " sends ", sent[to],
                      " elements to rank ", group[to], ", which expects ", expected[from]);
        copy_bytes(advance(all, begin, dtype), advance(views[from], offset(sent, to), dtype),
                   bytes_for(sent[to], dtype));
        begin += sent[to];
      }
      out.put(target, all, begin, dtype);
    }
  }
}

void SimulatedCollectives::all_to_all(const MeshDims& dims, DType dtype,
                                      std::span<const void* const> send, Counts send_counts,
                                      std::span<void* const> receive, Counts receive_counts) {
  deliver(dims, dtype, send, send_counts, receive, receive_counts);
  if (mesh_.group_size(dims) > 1)
    ledger().count(CollectiveKind::all_to_all, dims, total_bytes(send_counts, dtype));
}

void SimulatedCollectives::neighbour_exchange(const MeshDims& dims, DType dtype,
                                              std::span<const void* const> send, Counts send_counts,
                                              std::span<void* const> receive,
                                              Counts receive_counts) {
  deliver(dims, dtype, send, send_counts, receive, receive_counts);
  if (mesh_.group_size(dims) == 1) return;
  std::vector<std::int64_t> bytes = total_bytes(send_counts, dtype), messages(ranks_.size(), 0);
  for (const Group& group : groups(dims))
    for (std::size_t m = 0; m < group.size(); ++m) {
      const auto& counts = send_counts[at(group[m])];
      bytes[at(group[m])] -= static_cast<std::int64_t>(bytes_for(counts[m], dtype));
      messages[at(group[m])] =
          std::ranges::count_if(counts, [](auto n) { return n > 0; }) - (counts[m] > 0);
    }
  ledger().count(CollectiveKind::neighbour_exchange, dims, bytes, messages);
}

void SimulatedCollectives::broadcast(const MeshDims& dims, DType dtype,
                                     std::span<void* const> buffers,
                                     std::span<const std::int64_t> counts) {
  TESSERA_CHECK(buffers.size() == ranks_.size() && counts.size() == ranks_.size(),
                "one entry for each local rank");
  HostBuffers host(exec_, ranks_.size());
  for (const Group& group : groups(dims)) {
    const std::int64_t count = counts[at(group[0])];
    const void* first = host.read(at(group[0]), buffers[at(group[0])], count, dtype);
    for (std::size_t m = 1; m < group.size(); ++m) {
      TESSERA_CHECK(counts[at(group[m])] == count, "broadcast of unlike counts");
      void* to = host.place(at(group[m]), buffers[at(group[m])], count, dtype);
      copy_bytes(to, first, bytes_for(count, dtype));
      host.put(buffers[at(group[m])], to, count, dtype);
    }
  }
}

std::vector<double> SimulatedCollectives::sum_over_ranks(
    std::span<const std::vector<double>> values) {
  TESSERA_CHECK(values.size() == ranks_.size(), "one entry for each local rank");
  std::vector<double> sum = values[0];
  for (std::size_t r = 1; r < values.size(); ++r)
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += values[r].at(i);
  return sum;
}

std::vector<double> SimulatedCollectives::max_over_ranks(
    std::span<const std::vector<double>> values) {
  TESSERA_CHECK(values.size() == ranks_.size(), "one entry for each local rank");
  std::vector<double> largest = values[0];
  for (std::size_t r = 1; r < values.size(); ++r)
    for (std::size_t i = 0; i < largest.size(); ++i)
      if (!std::isnan(largest[i]) && !(largest[i] > values[r].at(i))) largest[i] = values[r][i];
  return largest;
}

std::vector<std::vector<double>> SimulatedCollectives::gather_over_ranks(
    std::span<const std::vector<double>> values) {
  TESSERA_CHECK(values.size() == ranks_.size(), "one entry for each local rank");
  return {values.begin(), values.end()};
}

}  // namespace tessera::comm
