// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/program/program.hpp"

namespace tessera::comm {

/// Counts the collectives that were executed, in the terms of the plan: payload bytes of each local
/// rank (all_reduce, reduce_scatter, all_to_all: sent; all_gather: received; neighbour_exchange:
/// sent to other ranks, with the number of messages). Groups of one rank
/// communicate nothing and are not counted.
class Ledger {
 public:
  /// Collectives are booked under this name until the next call; "" books nothing.
  void set_section(std::string name) { section_ = std::move(name); }
  /// Books one call; `bytes[r]` of local rank r, which sent `messages[r]`.
  void count(program::CollectiveKind op, const std::vector<int>& mesh_dims,
             const std::vector<std::int64_t>& bytes,
             const std::vector<std::int64_t>& messages = {});
  /// Rows in order of first use; `bytes` and `messages` the maximum over local ranks' totals,
  /// `bytes_all_ranks` the sum over local ranks.
  std::vector<program::CollectiveRow> rows() const;
  void clear() { rows_.clear(); }

 private:
  struct Row {
    std::string section;
    program::CollectiveKind op;
    std::vector<int> mesh_dims;
    std::int64_t count = 0;
    std::vector<std::int64_t> bytes;     // by local rank
    std::vector<std::int64_t> messages;  // by local rank
  };
  std::string section_;
  std::vector<Row> rows_;
};

}  // namespace tessera::comm
