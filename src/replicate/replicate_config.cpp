// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/replicate/replicate_config.hpp"

#include "tessera/replicate/replica_context.hpp"

namespace tessera::replicate {
namespace {

/// Ranks that a tensor dim is cut over; 0 without a rule.
std::int64_t ways_of(const Layout& layout, const MeshShape& mesh, const char* dim) {
  const auto name = layout.mesh_dim_of(dim);
  const auto found = name ? mesh.find(*name) : std::nullopt;
  return found ? mesh[*found].size : 0;
}

}  // namespace

void ReplicateConfig::describe(config::Schema& schema) {
  schema
      .add("replicate.replicas", replicas,
           "Replicas of a step function's model; 0: as many as the mesh dim of the rule of replica "
           "(or else of batch) has ranks. They may be more or fewer than the ranks.")
      .range(0, 2147483647.0)
      .free_key();
  schema
      .add("replicate.uneven", uneven,
           "Allow a batch that does not divide among replicas: some get rows of weight 0.")
      .free_key();
}

Layout ReplicateConfig::layout_of(const Layout& layout, const MeshShape& mesh) const {
  const std::int64_t ways = ways_of(layout, mesh, "batch");
  if (ways == 0 || layout.mesh_dim_of(ReplicaContext::kReplica)) return layout;
  if (replicas > 0 && replicas < ways) return layout;
  auto rules = layout.rules();
  for (auto& rule : rules)
    if (rule.first == "batch") rule.first = ReplicaContext::kReplica;
  return Layout(std::move(rules));
}

std::int64_t ReplicateConfig::replicas_of(const Layout& layout, const MeshShape& mesh) const {
  return replicas > 0 ? replicas : ways_of_replicas(layout, mesh);
}

std::int64_t ways_of_replicas(const Layout& layout, const MeshShape& mesh) {
  return std::max<std::int64_t>(1, ways_of(layout, mesh, ReplicaContext::kReplica));
}

}  // namespace tessera::replicate
