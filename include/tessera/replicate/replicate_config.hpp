// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "tessera/config/schema.hpp"
#include "tessera/shape/layout.hpp"
#include "tessera/shape/mesh_shape.hpp"

namespace tessera::replicate {

/// Section [replicate] of a deck.
struct ReplicateConfig {
  std::int64_t replicas = 0;  ///< 0: as many as the mesh dim that the dim `replica` is cut over
  bool uneven = false;        ///< a batch that does not divide among replicas is padded

  void describe(config::Schema& schema);

  /// The layout of a replicated model: where no rule says where replicas live, they take the rule
  /// of `batch`, unless there are fewer replicas than that mesh dim has ranks (then the rule cuts
  /// the batch of each).
  Layout layout_of(const Layout& layout, const MeshShape& mesh) const;
  /// The number of replicas under such a layout.
  std::int64_t replicas_of(const Layout& layout, const MeshShape& mesh) const;
};

/// Ranks that replicas are cut over under a layout; 1: each rank has all of them.
std::int64_t ways_of_replicas(const Layout& layout, const MeshShape& mesh);

}  // namespace tessera::replicate
