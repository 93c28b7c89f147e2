// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/comm/ledger.hpp"

#include <algorithm>
#include <numeric>

#include "tessera/base/error.hpp"

namespace tessera::comm {

void Ledger::count(program::CollectiveKind op, const std::vector<int>& mesh_dims,
                   const std::vector<std::int64_t>& bytes,
                   const std::vector<std::int64_t>& messages) {
  if (section_.empty()) return;
  auto row = std::ranges::find_if(rows_, [&](const Row& r) {
    return r.op == op && r.section == section_ && r.mesh_dims == mesh_dims;
  });
  const std::vector<std::int64_t> none(bytes.size(), 0);
  if (row == rows_.end()) row = rows_.insert(rows_.end(), {section_, op, mesh_dims, 0, none, none});
  TESSERA_CHECK(row->bytes.size() == bytes.size(), "one number of bytes for each local rank");
  row->count += 1;
  for (std::size_t r = 0; r < bytes.size(); ++r) row->bytes[r] += bytes[r];
  for (std::size_t r = 0; r < messages.size(); ++r) row->messages[r] += messages[r];
}

std::vector<program::CollectiveRow> Ledger::rows() const {
  std::vector<program::CollectiveRow> rows;
  for (const Row& row : rows_)
    rows.push_back({row.section, row.op, row.mesh_dims, row.count, std::ranges::max(row.bytes),
                    std::accumulate(row.bytes.begin(), row.bytes.end(), std::int64_t{0}),
                    std::ranges::max(row.messages)});
  return rows;
}

}  // namespace tessera::comm
