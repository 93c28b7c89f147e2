// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace tessera::ops {

/// Tells the graph module how gradients are summed and started. Every function that adds one of
/// Tessera's operations calls it; only a graph made of own operations alone needs it by hand.
void install();

}  // namespace tessera::ops
