// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tessera/graph/operation.hpp"

namespace tessera::ops {

/// A way to cut tensors on one mesh dim: every operand that has the dim `name` is cut along it.
struct Cut {
  std::string name;
  bool inner = false;  ///< State::inner
  bool operator==(const Cut&) const = default;
};

/// The cuts worth trying on this mesh dim: dims that the layout's rules map to it, and dims along
/// which some input is cut already.
std::vector<Cut> candidate_cuts(const StrategyContext& context);

/// Split along the cut's dim if the shape has it, else replicated.
State state_under(const Cut& cut, const Shape& shape);
std::vector<State> states_under(const Cut& cut, std::span<const TensorSpec> operands);

/// All candidate cuts, legal for any dim; operands without the cut's dim are whole.
std::vector<Strategy> candidate_strategies(const StrategyContext& context);

/// `count` replicated states.
std::vector<State> all_replicated(std::size_t count);

/// Cuts that pass straight through: all operands that have the dim are cut along it. Only for dims
/// for which `legal` is true and which each output has.
std::vector<Strategy> passing_cuts(const StrategyContext& context,
                                   const std::function<bool(const std::string&)>& legal);

/// Partial in, partial out, for operations that are linear in input `i`; nothing if that input
/// isn't partial now.
void add_linear(std::vector<Strategy>& strategies, const StrategyContext& context, std::size_t i,
                const std::vector<std::size_t>& linear_outputs);

/// The placement of a tensor whose dim `map[d]` is dim d of one placed so: cuts of dims mapped to
/// -1 and partial states become replicated.
Placement mapped(const Placement& placement, const std::vector<int>& map);
/// map[d] = index in `to` of dim d of `from`, or -1.
std::vector<int> dim_map(const Shape& from, const Shape& to);

/// Mesh dims that cut dim `dim` of a placement, outermost first; empty for dim -1.
std::vector<int> mesh_dims_of(const Placement& placement, int dim);

}  // namespace tessera::ops
