// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "tessera/graph/graph.hpp"

namespace tessera::ops {

/// Rows of `table` [vocab, rest…] at `ids` (i32, dims that the table lacks): [ids…, rest…]. A local
/// lookup: where the vocabulary is cut, a rank gives zeros for ids of other ranks, and the results
/// are a partial sum. Ids outside the vocabulary give zeros everywhere. No gradient towards ids.
Tensor embedding(Tensor table, Tensor ids);

}  // namespace tessera::ops
