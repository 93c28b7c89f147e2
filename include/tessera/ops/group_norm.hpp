// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include "tessera/graph/graph.hpp"

namespace tessera::ops {

/// A normalised tensor with the statistics that were used, f32 (f64 for f64), over x's dims that
/// were not normalised over. Statistics have no gradient.
struct Normalised {
  Tensor value;
  Tensor mean;
  Tensor variance;  ///< mean of squared deviations, without Bessel's correction
};

/// (x - mean) / sqrt(variance + epsilon), times `scale` plus `bias` where they are not empty, with
/// statistics over the dims `over`, for each index of the others separately. `parameters` are the
/// dims of scale and bias, any of x's.
/// - batch norm (Ioffe and Szegedy): over {batch, height, width}, parameters {channels}. All of the
///   batch counts, wherever it lies; a further dim `replica` in x keeps statistics per replica.
/// - group norm (Wu and He): over {height, width, channels of a group}, parameters {groups,
/// channels
///   of a group}; instance norm with groups of one channel.
/// Where `over` is cut, parts' (n, mean, M2) are gathered by one small collective for each mesh dim
/// and merged in order, never as E[x^2] - E[x]^2. UserError if dims do not fit.
Normalised group_norm(Tensor x, const std::vector<std::string>& over,
                      const std::vector<std::string>& parameters, Tensor scale, Tensor bias,
                      double epsilon);

}  // namespace tessera::ops
