// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include "tessera/graph/graph.hpp"
#include "tessera/program/program.hpp"
#include "tessera/shape/layout.hpp"

namespace tessera::plan {

/// What of training a Program does, where other ranks keep the weights than those that compute.
enum class Part {
  all,
  /// Forward and backward passes. Gradients are stored reduced, cut as their weights' slots would
  /// be, for the host to read; variables that no section uses take no memory.
  compute,
  /// Updates. Gradients are stored in the same way, for the host to write.
  update,
};

struct PlanOptions {
  MeshShape mesh;
  Layout layout;
  /// Mesh dim over which optimizer slots are split once more; "": none.
  std::string shard;
  /// Mesh dim over which weights of two dims and more, and their slots, are stored split once more:
  /// gathered just before use, again in the backward pass, and released after it; "": none.
  std::string store;
  Part part = Part::all;
  /// Largest reduction bucket.
  std::int64_t bucket_bytes = 64 << 20;
  /// Collectives that steps need not wait for are flights (overlap.hpp in src/plan).
  bool overlap = false;
  /// With it: sections at whose end gradients are reduced, instead of when `update` starts, in
  /// buckets of at most flight_bytes. Each gradient's last section before it is read, run once.
  std::vector<std::string> reducing;
  std::int64_t flight_bytes = 4 << 20;
  /// Smaller ones are waited for: done before a test could look after them.
  std::int64_t least_flight_bytes = 16 << 10;
};

/// Compiles the graphs of all sections over one set of variables. Pure; its cost does not depend on
/// the number of ranks. UserError for an illegal layout.
program::Program compile(const VariableSet& variables, const std::vector<const Graph*>& graphs,
                         const PlanOptions& options);

/// Names of all dims of all tensors, for Layout::check_names.
std::vector<std::string> tensor_dims(const VariableSet& variables,
                                     const std::vector<const Graph*>& graphs);

}  // namespace tessera::plan
