// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "tessera/graph/graph.hpp"

namespace tessera::ops {

/// (x - mean) / sqrt(variance + epsilon) over dim `axis`, times `scale` [axis] plus `bias` [axis]
/// where they are not empty (Ba, Kiros and Hinton, "Layer Normalization"). x may have any further
/// dims. Where the axis is cut, the parts' (n, mean, M2) are merged in order. Statistics are f32
/// (f64 for f64).
Tensor layer_norm(Tensor x, const std::string& axis, Tensor scale, Tensor bias, double epsilon);
/// x / sqrt(mean of squares + epsilon), times `scale` (Zhang and Sennrich, "Root Mean Square Layer
/// Normalization").
Tensor rms_norm(Tensor x, const std::string& axis, Tensor scale, double epsilon);

}  // namespace tessera::ops
