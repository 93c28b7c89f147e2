// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/plan/machine.hpp"
#include "tessera/plan/planner.hpp"
#include "tessera/plan/report.hpp"
#include "tessera/plan/search.hpp"
#include "tessera/program/program.hpp"
#include "tessera/replicate/task.hpp"
#include "tessera/shape/layout.hpp"
#include "tessera/shape/mesh_shape.hpp"
#include "tessera/train/groups.hpp"
#include "tessera/train/settings.hpp"

namespace tessera::train {

/// A Task with the Program that it became on a mesh. Pure host code: made on login nodes, too.
struct Compiled {
  std::unique_ptr<replicate::Task> task;
  MeshShape mesh;
  Layout layout;
  program::Program program;
  std::int64_t shares = 1;  ///< groups of workers that share a step's micro-batches

  /// Memory, flops and collectives of one step.
  plan::Report report() const;
  /// How often each section of the Program runs in a step.
  std::vector<plan::SectionRuns> step() const;
};

/// The choices that the deck makes for `ranks` ranks; UserError: illegal mesh or layout.
plan::Candidate chosen(const Settings& settings, std::int64_t ranks);
/// Replicas of the deck's model under a choice.
std::int64_t replicas_of(const Settings& settings, const plan::Candidate& choice);
/// The deck's Task with a choice of micro-batches, and of regions that are computed again.
std::unique_ptr<replicate::Task> make_task(const Settings& settings, const plan::Candidate& choice,
                                           std::vector<std::string> recompute);
/// How the deck's Task is to be planned under a choice.
plan::PlanOptions plan_options(const Settings& settings, const plan::Candidate& choice,
                               const replicate::Task& task);
/// What plan.machine describes.
plan::Machine machine_of(const Settings& settings);
/// Compiles the deck's model for other choices than the deck's.
Compiled compile(const Settings& settings, const plan::Candidate& choice);
/// Compiles the deck for `ranks` ranks. UserError: illegal mesh or layout, rules that name unknown
/// dims, more memory on a rank than plan.memory_limit.
Compiled compile(const Settings& settings, std::int64_t ranks);

/// What the servers of an asynchronous run do: updates, everything stored split over a mesh dim
/// `server`.
Compiled compile_servers(const Settings& settings, const Groups& groups);
/// What a group of workers does: forward and backward passes and evaluations, on the deck's mesh.
Compiled compile_workers(const Settings& settings, const Groups& groups);

}  // namespace tessera::train
