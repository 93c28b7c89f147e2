// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/nn/layers.hpp"
#include "tessera/ops/conv.hpp"

namespace tessera::nn {

struct ConvOptions {
  /// Variables: `name` [kernel_<dim>…, channels in, channels out] and `name`_bias [channels out].
  std::string name = "conv";
  std::int64_t kernel = 3;  ///< taps along each dim of space
  std::int64_t stride = 1;
  ops::Padding padding = ops::Padding::same;
  bool bias = false;
  Activation activation = Activation::none;
  double gain = 1;  ///< see fan_in_normal
  /// Of the filter, with the channels out as its result.
  Spectral spectral = Spectral::none;
};

/// activation(conv(x) + b) over the dims `space` of x [batch…, space…, channels]: from its dim
/// `channels` to the new dim `fresh`, which must have another name.
Tensor conv(Tensor x, const std::vector<std::string>& space, const std::string& channels,
            const Dim& fresh, const ConvOptions& options);

struct BatchNormOptions {
  std::string name = "norm";
  double epsilon = 1e-5;
  /// Share of the running statistics that a step keeps.
  double momentum = 0.9;
  double scale = 1;      ///< at first
  bool training = true;  ///< else with the running statistics
  /// In training: the running statistics move. Not where a net only serves to train another one.
  bool moving = true;
  /// Conditional batch norm (Dumoulin et al., "A Learned Representation For Artistic Style", 2017):
  /// each row has the scale and bias of its class, i32 [some of x's dims] below `classes`, out of
  /// tables [classes, channels]. Empty: one scale and bias [channels] for all.
  Tensor labels = {};
  std::int64_t classes = 0;
  /// Weights of rows [some of x's dims], e.g. Batch::row_weights(): those with 0, by which a batch
  /// is filled up, are left out of the statistics in training. Empty: all rows count.
  Tensor row_weights = {};
};

/// Batch norm with scale and bias over all dims of x but `channels` and `kept` (a dim of replicas
/// whose statistics stay apart; the running ones are their mean, by elements where rows are left
/// out). Variables under scope `name`:
/// scale, bias, running_mean and running_variance, the last two of kind state; in training they
/// move towards this section's statistics, so with micro-batches towards the last one's that has
/// rows.
Tensor batch_norm(Tensor x, const std::string& channels, const BatchNormOptions& options,
                  const std::vector<std::string>& kept = {});

/// Each element `factor` times along each of the dims `space`: the picture enlarged, its pixels
/// repeated. Any dim may be cut.
Tensor upsample(Tensor x, const std::vector<std::string>& space, std::int64_t factor = 2);

}  // namespace tessera::nn
