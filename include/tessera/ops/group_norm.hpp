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
  Tensor count;     ///< elements that statistics are over; empty without row weights
};

/// (x - mean) / sqrt(variance + epsilon), times `scale` plus `bias` where they are not empty, with
/// statistics over the dims `over`, for each index of the others separately. `parameters` are the
/// dims of scale and bias, any of x's.
/// - batch norm (Ioffe and Szegedy): over {batch, height, width}, parameters {channels}. All of the
///   batch counts, wherever it lies; a further dim `replica` in x keeps statistics per replica.
/// - group norm (Wu and He): over {height, width, channels of a group}, parameters {groups,
/// channels
///   of a group}; instance norm with groups of one channel.
/// Where `over` is cut, ranks add up their shares of the mean, then of the squared deviations from
/// it: never as E[x^2] - E[x]^2. UserError if dims do not fit.
///
/// `row_weights` [some of x's dims, none with parameters] leaves rows out of the statistics: those
/// with weight 0, by which a batch is filled up; all others count alike. Where all are left out,
/// mean, variance and count are 0. Rows that are left out are normalised as the others are.
Normalised group_norm(Tensor x, const std::vector<std::string>& over,
                      const std::vector<std::string>& parameters, Tensor scale, Tensor bias,
                      double epsilon, Tensor row_weights = {});

}  // namespace tessera::ops
