// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/comm/collectives.hpp"

#include <functional>
#include <utility>

namespace tessera::comm {
namespace {

/// A collective that takes place when it is finished.
class Deferred final : public Flight {
 public:
  explicit Deferred(std::function<void()> collective) : collective_(std::move(collective)) {}
  bool test() override { return false; }
  void finish() override { collective_(); }

 private:
  std::function<void()> collective_;
};

}  // namespace

std::unique_ptr<Flight> Collectives::start_all_reduce(const MeshDims& dims, ReduceOp op,
                                                      DType dtype, std::span<void* const> buffers,
                                                      std::span<const std::int64_t> counts) {
  return std::make_unique<Deferred>([=, this] { all_reduce(dims, op, dtype, buffers, counts); });
}

std::unique_ptr<Flight> Collectives::start_reduce_scatter(
    const MeshDims& dims, DType dtype, std::span<const void* const> send,
    std::span<void* const> receive, std::span<const std::vector<std::int64_t>> counts) {
  return std::make_unique<Deferred>(
      [=, this] { reduce_scatter(dims, dtype, send, receive, counts); });
}

std::unique_ptr<Flight> Collectives::start_all_gather(
    const MeshDims& dims, DType dtype, std::span<const void* const> send,
    std::span<void* const> receive, std::span<const std::vector<std::int64_t>> counts) {
  return std::make_unique<Deferred>([=, this] { all_gather(dims, dtype, send, receive, counts); });
}

std::vector<program::CollectiveRow> rows_over_ranks(Collectives& collectives) {
  // Doubles hold byte counts exactly up to 2^53.
  auto rows = collectives.ledger().rows();
  std::vector<double> largest, bytes_all;
  for (const auto& row : rows) {
    largest.push_back(static_cast<double>(row.bytes));
    largest.push_back(static_cast<double>(row.messages));
    bytes_all.push_back(static_cast<double>(row.bytes_all_ranks));
  }
  largest = collectives.world().max(largest);
  bytes_all = collectives.world().sum(bytes_all);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i].bytes = static_cast<std::int64_t>(largest[2 * i]);
    rows[i].messages = static_cast<std::int64_t>(largest[2 * i + 1]);
    rows[i].bytes_all_ranks = static_cast<std::int64_t>(bytes_all[i]);
  }
  return rows;
}

}  // namespace tessera::comm
