// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/models/sngan.hpp"
#include "tessera/nn/spectral_norm.hpp"

namespace tessera::models {

/// Numbers of a list key; UserError that names it.
std::vector<std::int64_t> parse_sizes(const std::string& key, const std::vector<std::string>& list);

/// How the generator's batch norms work in a section.
enum class Statistics : std::uint8_t {
  moving,   ///< the batch's; the running ones move
  batch,    ///< the batch's; the running ones stay: the discriminator is trained
  running,  ///< the running ones
};

/// Pictures [batch, height, width, channels] in (-1, 1) out of latent numbers [batch, latent] and
/// labels [batch]. Variables under the scope "generator". Rows of weight 0 among `row_weights`
/// [batch], if given, are left out of the batch's statistics.
Tensor generate(const SnganConfig& config, Tensor latent, Tensor labels, Statistics statistics,
                Tensor row_weights = {});

/// Scores [rows…] of pictures [rows…, height, width, channels] in [-1, 1]. Variables under the
/// scope "discriminator". A section may call it once if the singular vectors move.
Tensor discriminate(const SnganConfig& config, Tensor pictures, Tensor labels,
                    nn::Spectral spectral);

}  // namespace tessera::models
