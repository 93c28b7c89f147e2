// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>

#include "tessera/env/replay.hpp"

namespace tessera::env {
namespace {

/// Ranks that differ from `rank` in `dims` alone, in a collective's order.
std::vector<std::int64_t> group_of(const MeshShape& mesh, const std::vector<int>& dims,
                                   std::int64_t rank) {
  std::vector<std::int64_t> members{rank};
  for (int dim : dims) {
    std::vector<std::int64_t> more;
    for (auto member : members)
      for (std::int64_t i = 0; i < mesh[dim].size; ++i) {
        Coordinates at = mesh.coordinates(member);
        at[static_cast<std::size_t>(dim)] = static_cast<int>(i);
        more.push_back(mesh.rank_of(at));
      }
    members = std::move(more);
  }
  return members;
}

/// Rows of `wanted` whose environment lies in `held`.
std::vector<std::int64_t> rows_between(std::span<const ReplayItem> items, const Interval& wanted,
                                       const Interval& held) {
  std::vector<std::int64_t> rows;
  for (std::int64_t row = wanted.begin; row < wanted.end; ++row) {
    const auto environment = items[static_cast<std::size_t>(row)].environment;
    if (environment >= held.begin && environment < held.end) rows.push_back(row);
  }
  return rows;
}

}  // namespace

Interval Replay::environments_of(std::int64_t rank) const {
  const auto& mesh = collectives_->mesh();
  return tile_box({{"environment", config_.environments}}, placement_, mesh,
                  mesh.coordinates(rank))[0];
}

std::vector<ReplayRows> Replay::rows(std::span<const ReplayItem> items,
                                     const Placement& batch) const {
  const auto& mesh = collectives_->mesh();
  const Shape rows{{"batch", static_cast<std::int64_t>(items.size())}};
  const auto wanted_by = [&](std::int64_t rank) {
    return tile_box(rows, batch, mesh, mesh.coordinates(rank))[0];
  };
  const auto dims = placement_.mesh_dims_splitting(0);
  std::vector<int> sorted(dims.begin(), dims.end());
  std::sort(sorted.begin(), sorted.end());

  const auto& ranks = collectives_->local_ranks();
  std::vector<std::vector<float>> send(ranks.size()), receive(ranks.size());
  std::vector<std::vector<std::int64_t>> send_counts(ranks.size()), receive_counts(ranks.size());
  std::vector<std::vector<std::int64_t>> order(ranks.size());
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    for (auto member : group_of(mesh, sorted, ranks[r])) {
      const auto leaving = rows_between(items, wanted_by(member), environments_of(ranks[r]));
      for (auto row : leaving) {
        const auto& item = items[static_cast<std::size_t>(row)];
        const float* from = record(static_cast<int>(r), item.environment, item.slot);
        send[r].insert(send[r].end(), from, from + width());
      }
      send_counts[r].push_back(static_cast<std::int64_t>(leaving.size()) * width());
      const auto coming = rows_between(items, wanted_by(ranks[r]), environments_of(member));
      order[r].insert(order[r].end(), coming.begin(), coming.end());
      receive_counts[r].push_back(static_cast<std::int64_t>(coming.size()) * width());
    }
    receive[r].resize(order[r].size() * static_cast<std::size_t>(width()));
  }
  if (sorted.empty()) {
    receive = send;
  } else {
    std::vector<const void*> from;
    std::vector<void*> to;
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      from.push_back(send[r].data());
      to.push_back(receive[r].data());
    }
    collectives_->all_to_all(sorted, DType::f32, from, send_counts, to, receive_counts);
  }

  std::vector<ReplayRows> result;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const auto begin = wanted_by(ranks[r]).begin;
    std::vector<float> records(receive[r].size());
    for (std::size_t i = 0; i < order[r].size(); ++i)
      std::copy_n(receive[r].begin() + static_cast<std::ptrdiff_t>(i) * width(), width(),
                  records.begin() + (order[r][i] - begin) * width());
    result.push_back(unpack(records, static_cast<std::int64_t>(order[r].size())));
  }
  return result;
}

}  // namespace tessera::env
