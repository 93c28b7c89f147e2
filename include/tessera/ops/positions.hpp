// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "tessera/graph/graph.hpp"

namespace tessera::ops {

/// Rotates the pairs (i, i + d/2) of x's last dim by position x base^(-2i/d), with the position
/// along dim `length` (Su et al., "RoFormer"). UserError if the last dim's size is odd.
Tensor rotary(Tensor x, const std::string& length, double base = 10000);

/// The same where all of x is at one position, which the feed `feed` holds.
Tensor rotary_at(Tensor x, const std::string& feed, double base = 10000);

/// Table [length, d] of sines (first half) and cosines with geometric wavelengths from 2 pi to
/// 10000 x 2 pi (Vaswani et al., "Attention Is All You Need").
Tensor sinusoid(Graph& graph, const TensorSpec& spec);
/// The row [d] of that table at the position that the feed `feed` holds.
Tensor sinusoid_at(Graph& graph, const TensorSpec& spec, const std::string& feed);

}  // namespace tessera::ops
