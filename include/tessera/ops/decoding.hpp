// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "tessera/graph/graph.hpp"

/// Operations on what is kept while text is decoded. They have no gradients.
namespace tessera::ops {

/// `whole` with `slice`, which has its dims but for `dim`, at the index along `dim` that the feed
/// `feed` holds. Where `dim` is cut, the rank that holds the index writes and the others keep their
/// tiles: nothing moves. Assigned to the variable that `whole` was read from, it writes in place.
Tensor write_at(Tensor whole, Tensor slice, const std::string& dim, const std::string& feed);

}  // namespace tessera::ops
