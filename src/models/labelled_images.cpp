// SPDX-License-Identifier: BSD-3-Clause
#include "models/labelled_images.hpp"

namespace tessera::models {

std::vector<replicate::InputSpec> labelled_images(std::int64_t rows, const LabelledImages& sizes) {
  const Dim batch{"batch", rows};
  const Shape image{
      batch, {"height", sizes.height}, {"width", sizes.width}, {"channels", sizes.channels}};
  return {{"image", {image, DType::f32}},
          {"label", {Shape{batch}, DType::i32}, sizes.classes},
          {"weights", {Shape{batch}, DType::f32}}};
}

}  // namespace tessera::models
