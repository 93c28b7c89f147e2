// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/replicate/model.hpp"

namespace tessera::models {

/// The dims over which pictures extend.
inline const std::vector<std::string> kPictureSpace{"height", "width"};

/// Sizes of pictures that belong to classes.
struct LabelledImages {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t channels = 0;
  std::int64_t classes = 0;
};

/// image f32 [batch, height, width, channels], label i32 [batch], weights f32 [batch].
std::vector<replicate::InputSpec> labelled_images(std::int64_t rows, const LabelledImages& sizes);

}  // namespace tessera::models
