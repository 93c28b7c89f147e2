// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tessera/graph/graph.hpp"
#include "tessera/plan/planner.hpp"
#include "tessera/program/program.hpp"

namespace tessera::plan {

/// Where variables live while sections are planned: placements from the rules, further cuts by
/// `shard`, and gradients' placements as the first section that assigns them leaves them.
class Storage {
 public:
  Storage(const VariableSet& variables, const PlanOptions& options);
  /// Variables that none of the graphs reads or assigns take no memory.
  void drop_unused(const std::vector<const Graph*>& graphs);

  const MeshShape& mesh() const { return options_.mesh; }
  const PlanOptions& options() const { return options_; }
  const Variable& variable(int index) const { return variables_[index]; }

  /// The mesh dim over which logical devices are put; -1: there is none, or it has size 1.
  int stage_dim() const { return stage_; }
  /// Number of stages; 1 if there is no mesh dim for them.
  int stages() const;
  /// The stage of a logical device; -1: all of them.
  int stage_of(int device) const;
  /// The placement at a stage, -1: on all of them.
  Placement at_stage(Placement placement, int stage) const;

  /// The rules' placement; mesh dims of size 1 count as replicated.
  Placement ruled(const std::string& name, const Shape& shape) const;
  /// The rules' placement with one more cut over the store mesh dim, if it has two dims: for
  /// weights.
  Placement stored(const std::string& name, const Shape& shape) const;
  /// That with one more cut over the shard mesh dim: for slots.
  Placement sharded(const std::string& name, const Shape& shape) const;
  /// True if a tensor under this placement is cut further for storage by `layout.store`.
  bool is_stored_split(const Placement& placement) const {
    return store_ >= 0 && placement[store_].is_split() && placement[store_].inner;
  }

  /// As stored; empty for a gradient that no section has assigned yet.
  const std::optional<Placement>& placement(int variable) const {
    return placements_[static_cast<std::size_t>(variable)];
  }
  /// Placement of a gradient once it is reduced: as its weight's slots are stored.
  Placement home(int variable) const;
  /// The same memory may hold it under several placements, one after the other.
  void set_gradient_placement(int variable, Placement placement);
  /// Of the largest tile that the variable's memory holds, as far as is known.
  std::int64_t bytes(int variable) const { return bytes_[static_cast<std::size_t>(variable)]; }
  /// Gives gradients memory side by side in this order; false if one has its neighbours already.
  bool put_together(const std::vector<int>& gradients);
  /// Those that were put together, in order.
  const std::vector<int>& together() const { return together_; }

  /// Gives every variable its bytes and offset. Gradients that are partial on the same mesh dims
  /// follow each other without gaps, so that a bucket is one stretch of memory.
  void lay_out(program::Program& program) const;

 private:
  void note_bytes(int variable);

  const VariableSet& variables_;
  const PlanOptions& options_;
  int stage_ = -1;
  int shard_ = -1;
  int store_ = -1;
  std::vector<std::optional<Placement>> placements_;
  std::vector<std::int64_t> bytes_;
  std::vector<int> together_;
};

/// Order of gradients in memory: those put together first, the others stage by stage, those on all
/// stages first; by the mesh dims on which
/// they are partial, those that are reduced whole before those that are scattered, then as
/// declared.
std::vector<int> gradient_order(const VariableSet& variables, const Storage& storage);

inline std::int64_t align(std::int64_t bytes, std::int64_t to = 64) {
  return (bytes + to - 1) / to * to;
}

}  // namespace tessera::plan
