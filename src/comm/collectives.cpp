// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/comm/collectives.hpp"

namespace tessera::comm {

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
