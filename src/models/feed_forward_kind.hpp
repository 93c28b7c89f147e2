// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include "tessera/nn/layers.hpp"

namespace tessera::models {

/// What a deck's model.activation stands for.
struct FeedForwardKind {
  nn::Activation activation;
  bool gated;
};
FeedForwardKind feed_forward_kind(const std::string& name);
/// All names.
std::vector<std::string> feed_forward_names();

}  // namespace tessera::models
