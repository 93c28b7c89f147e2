// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/config/schema.hpp"
#include "tessera/data/jpeg.hpp"
#include "tessera/shape/tile.hpp"

namespace tessera::data {

/// How pictures become inputs: the keys data.picture_….
struct PictureConfig {
  bool augment = true;
  bool flip = true;
  double least_area = 0.08;
  double widest = 4.0 / 3.0;
  std::int64_t shorter = 0;
  std::vector<std::string> mean = {"0.485", "0.456", "0.406"};
  std::vector<std::string> deviation = {"0.229", "0.224", "0.225"};

  void describe(config::Schema& schema);
};

/// A part of a picture, in pixels of the picture, with borders anywhere; mirrored left to right if
/// wanted.
struct Crop {
  double top = 0, left = 0, height = 0, width = 0;
  bool mirrored = false;
};

/// A crop of training: of an area and a shape drawn from the configured ranges (Szegedy et al.,
/// "Going deeper with convolutions"), a function of (key, epoch, index) and the picture's size.
Crop random_crop(const PictureConfig& config, std::uint64_t key, std::int64_t epoch,
                 std::int64_t index, std::int64_t rows, std::int64_t columns);
/// What is left of a picture of rows x columns whose shorter side becomes `shorter` when its middle
/// of height x width is cut out.
Crop middle_crop(std::int64_t shorter, std::int64_t height, std::int64_t width, std::int64_t rows,
                 std::int64_t columns);
/// How far (8, 4, 2 or 1) a picture may shrink while it is decoded: the crop keeps at least the
/// pixels wanted.
int shrink_for(const Crop& crop, std::int64_t height, std::int64_t width);

/// What a crop is brought to: [height, width] of which `rows`, `columns` and `channels` are wanted,
/// values pixel x factor[channel] + term[channel].
struct Wish {
  std::int64_t height = 0, width = 0;
  Interval rows, columns, channels;
  const float* factor = nullptr;
  const float* term = nullptr;
};

/// Rows of the picture that `resample` reads for the rows wanted.
Interval rows_read(const Crop& crop, const Wish& wish, std::int64_t picture_rows);

/// Bilinear interpolation whose filter widens to the size of an output pixel where the crop is
/// larger than the output ("antialias"; as PIL's resize with BILINEAR and a box), in f32, written
/// dense to `out`. `pixels` hold at least rows_read of a picture with `picture_rows` rows; `crop`
/// is in its pixels.
void resample(const Pixels& pixels, std::int64_t picture_rows, const Crop& crop, const Wish& wish,
              float* out);

}  // namespace tessera::data
