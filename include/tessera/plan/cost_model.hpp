// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tessera/plan/machine.hpp"
#include "tessera/plan/report.hpp"
#include "tessera/program/program.hpp"

namespace tessera::plan {

/// Seconds of one step of a section: local work and its collective.
struct StepSeconds {
  double compute = 0;
  double communication = 0;
};

/// The cost model on one mesh: rates looked up once, then a few multiplications for each step.
class CostModel {
 public:
  /// `ranks_per_node` 0: what the machine says, or all ranks.
  CostModel(const Machine& machine, const MeshShape& mesh, std::int64_t ranks_per_node);

  StepSeconds seconds_of(const program::Section& section, const program::Step& step) const;
  double seconds_of(const Work& work) const;
  double seconds_of(const Transfer& transfer) const;
  /// The part of them that passes between nodes.
  double network_seconds_of(const Transfer& transfer) const;
  Prediction predict(const program::Program& program, const std::vector<SectionRuns>& step) const;
  std::int64_t ranks_per_node() const { return ranks_per_node_; }

 private:
  void predict(const program::Section& section, std::int64_t runs, Prediction& result) const;
  double members_on_node(const Transfer& transfer) const;
  Prediction predict_stages(const program::Program& program, const std::vector<SectionRuns>& step,
                            int stage_dim) const;

  const Machine& machine_;
  const MeshShape& mesh_;
  std::int64_t ranks_per_node_;
  mutable std::map<std::string, Units> rates_;
};

/// Adds to an open object what tools/plot_plan.py draws: mesh_dims, timeline (each step's seconds
/// and the bytes that are live) and variables (dims with tiles).
void write_timeline(JsonWriter& json, const program::Program& program,
                    const std::vector<SectionRuns>& step, const CostModel& model);

/// Seconds of a collective over `members` ranks that reach each other alike, `bytes` as a
/// CollectiveRow counts them. An all_reduce takes the quicker of recursive doubling (few messages)
/// and of halving and doubling (few bytes); Thakur, Rabenseifner, Gropp, "Optimization of
/// collective communication operations in MPICH", 2005.
double collective_seconds(program::CollectiveKind kind, double bytes, double members,
                          const Link& link);

}  // namespace tessera::plan
