// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <vector>

#include "tessera/shape/mesh_shape.hpp"
#include "tessera/shape/placement.hpp"
#include "tessera/shape/tensor_spec.hpp"

namespace tessera::plan {

/// One elementary change of placement.
struct Change {
  enum class Kind {
    slice,
    keep_at_origin,
    all_reduce,
    reduce_scatter,
    all_gather,
    all_to_all,
    neighbour_exchange,  ///< the cuts of one dim take another order
    transfer,            ///< from one stage to another
    spread               ///< at one stage to a partial sum, zero on the others
  };
  Kind kind;
  std::vector<int> mesh_dims;  ///< several only for all_reduce and neighbour_exchange
  Placement after;
};

/// True if every rank holds the same under both: the order of cuts counts, not how it is written.
bool same_tiles(const Placement& a, const Placement& b);

/// Elementary changes from one placement to another, in the order that moves few bytes: slices
/// first, then reductions, the way to another stage, exchanges, and gathers last. Where the cuts of
/// one dim come in another order, tiles are exchanged rather than gathered and cut again. What is
/// on all stages is at each of them already: for that there is no step.
std::vector<Change> relayout_path(const Placement& from, const Placement& to);

/// Payload bytes of a path on the rank with the largest tile (all_gather: output, others: input).
double relayout_bytes(const TensorSpec& spec, const Placement& from, const Placement& to,
                      const MeshShape& mesh);

/// The same for one mesh dim alone, all others staying as they are in `from`.
double state_bytes(const TensorSpec& spec, const Placement& from, int mesh_dim, const State& to,
                   const MeshShape& mesh);

/// True if a value may be turned into a partial sum: what is at one stage, and of what is
/// replicated only scalars, whose later reduction costs nothing more.
inline bool may_become_partial(const Shape& shape, const State& from) {
  return from.is_at() || (from.is_replicated() && shape.rank() == 0);
}

}  // namespace tessera::plan
