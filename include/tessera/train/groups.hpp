// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "tessera/train/settings.hpp"

namespace tessera::train {

/// How replicate.mode = async cuts the ranks: the first ones are servers, then follow the groups of
/// workers.
struct Groups {
  std::int64_t servers = 1;
  std::int64_t group = 1;    ///< ranks of a group
  std::int64_t workers = 1;  ///< groups
  /// All groups share each batch (replicate.staleness = 0); else each takes whole batches.
  bool share = false;

  std::int64_t ranks() const { return servers + group * workers; }
  std::int64_t first_rank(std::int64_t worker) const { return servers + worker * group; }
  /// The group that a rank belongs to; -1: it is a server.
  std::int64_t worker_of(std::int64_t rank) const {
    return rank < servers ? -1 : (rank - servers) / group;
  }
  std::int64_t shares() const { return share ? workers : 1; }
};

/// Ranks of one group: replicate.group, or the size of mesh.shape.
std::int64_t ranks_of_group(const Settings& settings);
/// UserError if the ranks cannot be cut as [replicate] asks for, or the batch cannot be shared.
Groups cut_into_groups(const Settings& settings, std::int64_t ranks);

}  // namespace tessera::train
