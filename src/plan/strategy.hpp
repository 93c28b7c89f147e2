// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <vector>

#include "tessera/graph/graph.hpp"
#include "tessera/shape/layout.hpp"

namespace tessera::plan {

/// What the choice of an operation's strategy rests on. Placements are by operand.
struct Choice {
  const Operation* operation;
  /// Each input's tensor: one may be several inputs.
  std::vector<int> tensors;
  std::vector<TensorSpec> input_specs;
  std::vector<TensorSpec> output_specs;
  /// Each input's placements to choose from (its versions).
  std::vector<std::vector<Placement>> inputs;
  /// Where each output should end up.
  std::vector<Placement> wanted;
  /// By output and mesh dim: bytes that are moved in the end if it comes out as a partial sum.
  std::vector<std::vector<double>> resting_bytes;
};

struct Chosen {
  std::vector<Placement> inputs;
  std::vector<Placement> outputs;
};

/// For each mesh dim the executable strategy that is cheapest in bytes moved plus work done, the
/// latter weighed by how many floating-point operations take as long as moving a byte. UserError if
/// a strategy is malformed.
Chosen choose_strategy(const Choice& choice, const MeshShape& mesh, const Layout& layout);

}  // namespace tessera::plan
