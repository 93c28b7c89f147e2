// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "section_planner.hpp"

namespace tessera::plan {

/// Puts small all_reduces over the same mesh dims into one call where the later one's operands are
/// complete before the earlier: an update that needs a scalar or a row of each weight would wait
/// for as many messages as there are weights. Only in sections that read gradients; elsewhere each
/// reduction stands where its tensor is needed.
void merge_reductions(Draft& draft);

}  // namespace tessera::plan
