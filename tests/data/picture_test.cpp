// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/data/picture.hpp"

#include <cmath>
#include <random>

#include "support/catch.hpp"

namespace tessera::data {
namespace {

Pixels noise(std::int64_t rows, std::int64_t columns, std::int64_t channels) {
  std::mt19937 random(7);
  Pixels pixels{0, rows, columns, channels, {}};
  for (std::int64_t i = 0; i < rows * columns * channels; ++i)
    pixels.values.push_back(static_cast<std::uint8_t>(random() % 256));
  return pixels;
}

/// The weighted mean of all pixels of a line under a tent around output pixel i, by its formula.
double tent_weight(std::int64_t i, std::int64_t count, double begin, double size, std::int64_t at) {
  const double scale = size / static_cast<double>(count), reach = std::max(scale, 1.0);
  const double centre = begin + (static_cast<double>(i) + 0.5) * scale;
  return std::max(0.0, 1 - std::abs(static_cast<double>(at) + 0.5 - centre) / reach);
}

double plain(const Pixels& pixels, const Crop& crop, const Wish& wish, std::int64_t y,
             std::int64_t x, std::int64_t c) {
  if (crop.mirrored) x = wish.width - 1 - x;
  double sum = 0, total = 0;
  for (std::int64_t r = 0; r < pixels.rows; ++r)
    for (std::int64_t k = 0; k < pixels.columns; ++k) {
      const double weight = tent_weight(y, wish.height, crop.top, crop.height, r) *
                            tent_weight(x, wish.width, crop.left, crop.width, k);
      const auto at = static_cast<std::size_t>((r * pixels.columns + k) * pixels.channels + c);
      sum += weight * pixels.values[at];
      total += weight;
    }
  return sum / total * static_cast<double>(wish.factor[c]) + static_cast<double>(wish.term[c]);
}

TEST_CASE("Pictures are brought to a size as a tent filter over all pixels would, whole or cut") {
  const Pixels pixels = noise(37, 41, 3);
  const float factor[] = {0.5F, 1, 2}, term[] = {-3, 0, 7};
  for (const Crop& crop : {Crop{0, 0, 37, 41, false}, Crop{3, 5, 20, 9, true},
                           Crop{10.5, 2.25, 8.5, 30.125, false}, Crop{30, 39, 2, 2, true}}) {
    const Wish whole{11, 13, {0, 11}, {0, 13}, {0, 3}, factor, term};
    std::vector<float> all(11 * 13 * 3);
    resample(pixels, 37, crop, whole, all.data());
    double worst = 0;
    for (std::int64_t y = 0; y < 11; ++y)
      for (std::int64_t x = 0; x < 13; ++x)
        for (std::int64_t c = 0; c < 3; ++c)
          worst = std::max(
              worst,
              std::abs(plain(pixels, crop, whole, y, x, c) -
                       static_cast<double>(all[static_cast<std::size_t>((y * 13 + x) * 3 + c)])));
    CHECK(worst < 1e-3);

    Wish part = whole;
    part.rows = {4, 9}, part.columns = {2, 7}, part.channels = {1, 3};
    const Interval rows = rows_read(crop, part, 37);
    Pixels some{rows.begin, rows.size(), 41, 3, {}};
    some.values.assign(pixels.values.begin() + rows.begin * 41 * 3,
                       pixels.values.begin() + rows.end * 41 * 3);
    std::vector<float> cut(5 * 5 * 2);
    resample(some, 37, crop, part, cut.data());
    std::size_t at = 0;
    bool is_same = true;
    for (std::size_t y = 4; y < 9; ++y)
      for (std::size_t x = 2; x < 7; ++x)
        for (std::size_t c = 1; c < 3; ++c)
          is_same = is_same && cut[at++] == all[(y * 13 + x) * 3 + c];
    CHECK(is_same);
  }
}

TEST_CASE("Random cuts lie within the picture and have the areas and shapes that were asked for") {
  const PictureConfig config;
  double least = 1, most = 0, mirrored = 0;
  constexpr int kDraws = 4000;
  for (int i = 0; i < kDraws; ++i) {
    const Crop crop = random_crop(config, 5, 3, i, 300, 400);
    CHECK(crop.top >= 0);
    CHECK(crop.left >= 0);
    CHECK(crop.top + crop.height <= 300);
    CHECK(crop.left + crop.width <= 400);
    const double share = crop.height * crop.width / (300 * 400);
    least = std::min(least, share), most = std::max(most, share);
    mirrored += crop.mirrored ? 1.0 / kDraws : 0;
    CHECK(crop.width / crop.height < 4.0 / 3 * 1.03);
    CHECK(crop.height / crop.width < 4.0 / 3 * 1.03);
  }
  CHECK(least < 0.1);
  CHECK(least > 0.075);
  CHECK(most > 0.95);
  CHECK(std::abs(mirrored - 0.5) < 0.03);
}

TEST_CASE("Areas are spread evenly where every shape fits") {
  PictureConfig config;
  config.widest = 1;
  double area = 0;
  constexpr int kDraws = 4000;
  for (int i = 0; i < kDraws; ++i) {
    const Crop crop = random_crop(config, 5, 3, i, 300, 300);
    area += crop.height * crop.width / (300 * 300) / kDraws;
  }
  CHECK(std::abs(area - 0.54) < 0.02);
}

TEST_CASE("A cut is a function of key, epoch and index; a thread of paper is taken at its middle") {
  const PictureConfig config;
  const Crop one = random_crop(config, 5, 3, 9, 300, 400);
  const auto differs = [&](const Crop& other) {
    return other.top != one.top || other.left != one.left || other.width != one.width;
  };
  CHECK_FALSE(differs(random_crop(config, 5, 3, 9, 300, 400)));
  CHECK(differs(random_crop(config, 6, 3, 9, 300, 400)));
  CHECK(differs(random_crop(config, 5, 4, 9, 300, 400)));
  CHECK(differs(random_crop(config, 5, 3, 10, 300, 400)));
  const Crop thin = random_crop(config, 5, 3, 9, 2, 1000);
  CHECK(thin.height == 2);
  CHECK(thin.width == 3);
  CHECK(thin.left == 498);
}

TEST_CASE("The middle of a validation picture, and how far it shrinks while it is decoded") {
  const Crop crop = middle_crop(256, 224, 224, 512, 1024);
  CHECK(crop.height == 448);
  CHECK(crop.width == 448);
  CHECK(crop.top == 32);
  CHECK(crop.left == 288);
  CHECK(shrink_for(crop, 224, 224) == 2);
  CHECK(shrink_for(crop, 225, 224) == 1);
  CHECK(shrink_for(crop, 28, 28) == 8);
  CHECK(shrink_for({0, 0, 100, 3000, false}, 60, 60) == 1);
}

}  // namespace
}  // namespace tessera::data
