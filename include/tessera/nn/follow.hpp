// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "tessera/graph/graph.hpp"

namespace tessera::nn {

/// Moves every copy of a weight in scope `copy` (Graph::Copy) towards it: copy <- (1 - rate) copy +
/// rate weight; 0 < rate <= 1, 1 copies (Lillicrap et al. 2016). With `period` > 1 only in steps
/// that are multiples of it (the hard updates of Mnih et al. 2015), by the feed "step". For
/// Model::finish.
void follow(Graph& graph, const std::string& copy, double rate, std::int64_t period = 1);

}  // namespace tessera::nn
