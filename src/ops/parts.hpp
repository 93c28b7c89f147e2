// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include "tessera/program/emitter.hpp"

/// Statistics of the pieces of a cut dim, one part for each piece, in the pieces' order.
namespace tessera::ops {

/// A temporary [_parts, x's dims without `dim`…, tail…], of which each rank has the part of its
/// piece; one part if the dim is whole.
program::BufferId new_parts(program::Emitter& emitter, const std::string& name, program::BufferId x,
                            int dim, const std::vector<Dim>& tail, DType dtype);
/// All parts on every rank: an all_gather for each mesh dim that cuts the dim; `parts` itself if
/// none does.
program::BufferId gather_parts(program::Emitter& emitter, program::BufferId x, int dim,
                               program::BufferId parts);

}  // namespace tessera::ops
