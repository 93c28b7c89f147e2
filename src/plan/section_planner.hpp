// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <map>
#include <vector>

#include "section_builder.hpp"
#include "tessera/graph/graph.hpp"

namespace tessera::plan {

/// A variable's new value at the end of a section.
struct Store {
  int variable;
  program::BufferId value;
};

/// A section whose assignments are not yet bound to memory.
struct Draft {
  program::Section section;
  std::vector<Store> stores;
};

/// Compiles one section's graph: chooses strategies, inserts relayouts, lowers operations.
class SectionPlanner {
 public:
  /// `whole`: gradients are reduced when the section ends, into the placement of their weights'
  /// slots; else they stay partial where nobody has said how they are stored.
  SectionPlanner(Storage& storage, const Graph& graph, bool whole = false);
  /// Steps and buffers without offsets; live ranges and memory are planned afterwards.
  Draft run();

  // For the emitter.
  SectionBuilder& builder() { return builder_; }
  program::BufferId relayout(program::BufferId from, const Placement& to);
  /// The placement on the stage of the node that is being planned.
  Placement here(Placement placement) const;

 private:
  /// A tensor as one buffer holds it. A tensor may have several, under different placements.
  struct Version {
    program::BufferId buffer;
    Placement placement;
    int used_at = 0;  ///< node that used it last
  };

  void find_needed();
  void find_stages();
  void load_inputs();
  /// A gradient that is to be reduced, with the buffer that has it so far.
  struct Gradient {
    int variable;
    program::BufferId buffer;
  };

  void reduce_gradients();
  void scatter_gradients(std::vector<Gradient>& gradients);
  void all_reduce_gradients(const std::vector<Gradient>& gradients);
  void reduce_assigned();
  std::int64_t bucket_bytes() const;
  std::vector<std::size_t> last_writes() const;
  int stage_of(program::BufferId buffer) const;
  void plan_node(const Node& node);
  void settle(int tensor);
  std::vector<std::vector<double>> resting_bytes(const Node& node) const;
  double resting_bytes(int tensor, int m, int steps) const;
  bool is_partial_sum(int tensor, int m) const;
  bool passes(const Node& node, const std::vector<State>& states, int m) const;
  void release_gathered(int tensor);
  Placement wanted(int tensor, int stage) const;
  bool holds(const Placement& version, const Placement& wanted) const;

  const Version& cheapest_version(int tensor, const Placement& placement) const;
  program::BufferId version_in(int tensor, const Placement& placement);
  void add_version(int tensor, program::BufferId buffer);
  void refresh(program::BufferId buffer);

  void accumulate(int tensor);
  void finish_assignments();
  void gather_assigned();
  program::BufferId assigned_value(const Graph::Assignment& assignment);
  program::BufferId add_to_variable(int variable, program::BufferId value);
  void finish_fetches();
  TensorSpec spec_of(int tensor) const { return graph_.info(tensor).spec; }

  Storage& storage_;
  const Graph& graph_;
  SectionBuilder builder_;
  std::vector<bool> needed_;                         // by node
  std::vector<bool> used_;                           // by tensor
  std::vector<int> stages_;                          // by node: where it runs; -1: everywhere
  std::vector<std::vector<Version>> versions_;       // by tensor
  std::vector<std::vector<int>> readers_;            // by tensor: needed nodes
  std::vector<int> assigned_to_;                     // by tensor: variable, or -1
  std::map<std::size_t, program::BufferId> values_;  // by assignment: known already
  std::vector<Store> stores_;
  bool whole_;
  int node_ = 0;  // that is being planned
};

}  // namespace tessera::plan
