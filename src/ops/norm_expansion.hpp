// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "tessera/graph/graph.hpp"

namespace tessera::ops {

/// Rows that are left out of a norm's statistics: those of weight 0. Empty: none.
struct LeftOut {
  Tensor row_weights;
  Tensor count;  ///< elements that statistics are over
};

/// A norm in primitives: (x - mean) / sqrt(variance + epsilon), times `scale` plus `bias` where
/// they are not empty, with statistics over the dims of x that `statistics` lacks; without
/// `centered` no mean is subtracted.
Tensor expand_norm(Tensor x, Tensor scale, Tensor bias, const Shape& statistics, bool centered,
                   double epsilon, const LeftOut& left_out = {});

/// For the `gradient` of the operation that computes a norm's: its inputs are dy, x, [scale],
/// statistics…, [row weights, count], its outputs dx, [dscale], [dbias of shape `parameters`],
/// whose gradients are `slopes`. Statistics are functions of x, through which the gradient towards
/// x goes as well.
std::vector<Tensor> norm_gradient_of_gradient(std::span<const Tensor> inputs,
                                              std::span<const Tensor> slopes, bool scale, bool bias,
                                              const Shape& parameters, const Shape& statistics,
                                              bool centered, double epsilon,
                                              const LeftOut& left_out = {});

}  // namespace tessera::ops
