// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>

#include "tessera/nn/spectral_norm.hpp"

/// The end of a class-conditional discriminator, and what it and its generator minimise.
namespace tessera::nn {

/// Scores [rows…] of features [rows…, channels] for the classes `labels` (i32, some of the rows'
/// dims; below `classes`): v . h + b + table[label] . h (Miyato and Koyama, "cGANs with Projection
/// Discriminator", 2018). Variables under the open scopes: score [channels], score_bias, and
/// score_classes [classes, channels], the two matrices normalised as `spectral` says.
Tensor projection_score(Tensor features, const std::string& channels, Tensor labels,
                        std::int64_t classes, Spectral spectral);

/// max(0, 1 - score) for pictures that should score high, max(0, 1 + score) for others (Lim and
/// Ye, "Geometric GAN", 2017).
Tensor hinge(Tensor score, bool should_be_high);

/// (|d score / d x| - 1)^2 of each row: what keeps a discriminator's slopes near 1 (Gulrajani et
/// al., "Improved Training of Wasserstein GANs", 2017, section 4; there x lies at random between a
/// real and a generated picture). `score` [rows…] is computed of x [rows…, …], each row's of that
/// row alone, by operations with second gradients. The length is sqrt(sum of squares + 1e-12).
Tensor gradient_penalty(Tensor score, Tensor x);

}  // namespace tessera::nn
