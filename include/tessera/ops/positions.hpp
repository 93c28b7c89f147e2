// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "tessera/graph/graph.hpp"

namespace tessera::ops {

/// Rotates the pairs (i, i + d/2) of x's last dim by position x base^(-2i/d), with the position
/// along dim `length` (Su et al., "RoFormer"). UserError if the last dim's size is odd.
Tensor rotary(Tensor x, const std::string& length, double base = 10000);

/// Table [length, d] of sines (first half) and cosines with geometric wavelengths from 2 pi to
/// 10000 x 2 pi (Vaswani et al., "Attention Is All You Need").
Tensor sinusoid(Graph& graph, const TensorSpec& spec);

}  // namespace tessera::ops
