// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tessera/graph/graph.hpp"
#include "tessera/plan/report.hpp"
#include "tessera/shape/layout.hpp"
#include "tessera/shape/mesh_shape.hpp"

namespace tessera::plan {

/// What a search may choose.
struct Candidate {
  MeshShape mesh;
  Layout layout;
  std::string shard;  ///< optim.shard
  std::string store;  ///< layout.store
  std::int64_t micro_batches = 1;
  std::string recompute = "none";  ///< train.recompute

  /// "mesh batch:4,model:2  layout batch:batch, d_ff:model  shard batch  micro_batches 2".
  std::string to_string() const;
};

/// What a candidate costs.
struct Evaluation {
  Prediction predicted;
  std::int64_t bytes = 0;  ///< per rank
};

struct Found {
  Candidate candidate;
  Evaluation evaluation;
  /// Why it stands where it does: what the best one saves over it, or what the best one gains.
  std::string reason;
};

/// What a search looks at: least time under the limit of memory, or least memory alone. The latter
/// is the objective of Mesh-TensorFlow's auto_mtf (tensorflow/mesh, mesh_tensorflow/auto_mtf),
/// which knows neither work nor communication; ties go to the layout that splits more.
enum class Objective : std::uint8_t { time, memory };

struct SearchOptions {
  std::int64_t ranks = 1;
  double memory_limit = 0;  ///< bytes per rank; 0: none
  double time_limit = 20;   ///< seconds
  Objective objective = Objective::time;
  /// Names for mesh dims, the deck's first.
  std::vector<std::string> mesh_names;
  /// Where to begin besides the search's own ideas: the deck's choice.
  std::vector<Candidate> seeds;
  std::vector<std::int64_t> micro_batches{1};  ///< to choose from, ascending
  std::vector<std::string> recompute{"none"};  ///< to choose from
  std::size_t top = 5;                         ///< how many to return
  std::function<double()> now;                 ///< seconds on a clock that only goes forward
};

struct SearchResult {
  std::vector<Found> best;  ///< best first; empty if nothing legal was found in time
  std::int64_t evaluated = 0;
  std::size_t meshes = 0;           ///< factorisations of the ranks
  std::size_t meshes_explored = 0;  ///< on which no change of one choice is better any more
  bool finished = false;            ///< false: the time was up before that
};

/// Dims that may be split, and which of them never go to one mesh dim because a tensor has both.
class DimConflicts {
 public:
  DimConflicts(const VariableSet& variables, const std::vector<const Graph*>& graphs);
  /// Dims of weights, state and inputs, the largest first.
  const std::vector<std::string>& dims() const { return dims_; }
  bool conflict(const std::string& a, const std::string& b) const;

 private:
  std::vector<std::string> dims_;
  std::vector<std::string> pairs_;  // "a\nb", sorted
};

/// Costs of a candidate; empty if it is illegal.
using Evaluate = std::function<std::optional<Evaluation>(const Candidate&)>;

/// Looks for the best mesh, layout, split of optimizer state and of stored weights, micro-batches
/// and recompute regions: each
/// factorisation of the ranks into one or two mesh dims (three, if time is left) is given layouts
/// to begin with; from the most promising on, single choices are changed while that helps. Ends at
/// the time limit with the best so far.
SearchResult search(const DimConflicts& dims, const SearchOptions& options,
                    const Evaluate& evaluate);

}  // namespace tessera::plan
