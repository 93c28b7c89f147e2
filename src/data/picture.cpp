// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/data/picture.hpp"

#include <algorithm>
#include <cmath>

#include "tessera/base/philox.hpp"

namespace tessera::data {
namespace {

constexpr int kTries = 10;             // shapes drawn before the whole picture is taken
constexpr std::uint64_t kBlocks = 16;  // Philox blocks of one crop: the tries, one for the flip

/// Taps of one output pixel: sources [first, first + weights).
struct Taps {
  std::int64_t first = 0;
  std::vector<float> weights;
};

/// Weights of output pixel i of `count`, which stretch over [begin, begin + size) of `limit`
/// pixels.
Taps taps_of(std::int64_t i, std::int64_t count, double begin, double size, std::int64_t limit) {
  const double scale = size / static_cast<double>(count);
  const double support = std::max(scale, 1.0);
  const double centre = begin + (static_cast<double>(i) + 0.5) * scale;
  const auto clamped = [&](double at) {
    return std::clamp<std::int64_t>(static_cast<std::int64_t>(std::floor(at + 0.5)), 0, limit);
  };
  Taps taps;
  taps.first = std::min(clamped(centre - support), limit - 1);
  const std::int64_t last = std::max(clamped(centre + support), taps.first + 1);
  double sum = 0;
  std::vector<double> weights;
  for (std::int64_t at = taps.first; at < last; ++at) {
    const double away = std::abs((static_cast<double>(at) + 0.5 - centre) / support);
    weights.push_back(std::max(0.0, 1 - away));
    sum += weights.back();
  }
  for (const double weight : weights)
    taps.weights.push_back(
        static_cast<float>(sum > 0 ? weight / sum : 1.0 / static_cast<double>(weights.size())));
  return taps;
}

Taps row_taps(std::int64_t i, const Crop& crop, const Wish& wish, std::int64_t picture_rows) {
  return taps_of(i, wish.height, crop.top, crop.height, picture_rows);
}

/// line += weight x row, where all is one after the other in memory.
void add_row(const std::uint8_t* row, float weight, std::int64_t count, float* line) {
  for (std::int64_t i = 0; i < count; ++i) line[i] += weight * static_cast<float>(row[i]);
}

/// One output row out of a line of mixed rows; `all` are its channels.
void mix_columns(const float* line, std::int64_t all, const std::vector<Taps>& columns,
                 const Wish& wish, float* out) {
  for (const Taps& taps : columns) {
    float sums[4] = {};
    const float* from = line + taps.first * all;
    for (const float weight : taps.weights)
      for (std::int64_t c = 0; c < all; ++c) sums[c] += weight * *from++;
    for (std::int64_t c = wish.channels.begin; c < wish.channels.end; ++c)
      *out++ = sums[c] * wish.factor[c] + wish.term[c];
  }
}

}  // namespace

void PictureConfig::describe(config::Schema& schema) {
  schema.add(
      "data.picture_augment", augment,
      "Pictures: cut training samples at random, anew in each epoch; false: their middle, as "
      "in validation");
  schema.add("data.picture_flip", flip, "Pictures: mirror every other training sample, at random");
  schema
      .add("data.picture_least_area", least_area,
           "Pictures: least part of a picture's area that a random cut keeps; at most all")
      .range(0.0001, 1);
  schema
      .add("data.picture_widest", widest,
           "Pictures: largest ratio of sides of a random cut, lying or standing")
      .range(1, 100);
  schema
      .add("data.picture_shorter", shorter,
           "Pictures: shorter side in pixels of a validation picture before its middle is cut out; "
           "0: 8/7 of the model's longer side")
      .range(0, 1e6);
  schema.add(
      "data.picture_mean", mean,
      "Pictures: what is subtracted from values in [0, 1]: a number for each channel, or one "
      "for all");
  schema.add("data.picture_deviation", deviation, "Pictures: what is divided by after that");
}

Crop random_crop(const PictureConfig& config, std::uint64_t key, std::int64_t epoch,
                 std::int64_t index, std::int64_t rows, std::int64_t columns) {
  const auto block = [&](std::uint64_t i) {
    return philox4x32(key, static_cast<std::uint64_t>(index) * kBlocks + i,
                      static_cast<std::uint64_t>(epoch));
  };
  const auto height = static_cast<double>(rows), width = static_cast<double>(columns);
  Crop crop;
  crop.mirrored = config.flip && (block(kTries).word[0] & 1) != 0;
  for (std::uint64_t i = 0; i < kTries; ++i) {
    const Philox drawn = block(i);
    const double share = config.least_area + (1 - config.least_area) * uniform_of(drawn.word[0]);
    const double ratio = std::pow(config.widest, 2 * uniform_of(drawn.word[1]) - 1);
    crop.width = std::round(std::sqrt(share * width * height * ratio));
    crop.height = std::round(std::sqrt(share * width * height / ratio));
    if (crop.width < 1 || crop.height < 1 || crop.width > width || crop.height > height) continue;
    crop.top = std::floor(uniform_of(drawn.word[2]) * (height - crop.height + 1));
    crop.left = std::floor(uniform_of(drawn.word[3]) * (width - crop.width + 1));
    return crop;
  }
  crop.width = std::min(width, std::round(height * config.widest));
  crop.height = std::min(height, std::round(width * config.widest));
  crop.top = std::floor((height - crop.height) / 2);
  crop.left = std::floor((width - crop.width) / 2);
  return crop;
}

Crop middle_crop(std::int64_t shorter, std::int64_t height, std::int64_t width, std::int64_t rows,
                 std::int64_t columns) {
  const double scale = static_cast<double>(std::min(rows, columns)) / static_cast<double>(shorter);
  Crop crop;
  crop.height = static_cast<double>(height) * scale;
  crop.width = static_cast<double>(width) * scale;
  crop.top = (static_cast<double>(rows) - crop.height) / 2;
  crop.left = (static_cast<double>(columns) - crop.width) / 2;
  return crop;
}

int shrink_for(const Crop& crop, std::int64_t height, std::int64_t width) {
  int shrink = 8;
  while (shrink > 1 && (crop.height / shrink < static_cast<double>(height) ||
                        crop.width / shrink < static_cast<double>(width)))
    shrink /= 2;
  return shrink;
}

Interval rows_read(const Crop& crop, const Wish& wish, std::int64_t picture_rows) {
  if (wish.rows.size() <= 0) return {0, 0};
  const Taps first = row_taps(wish.rows.begin, crop, wish, picture_rows);
  const Taps last = row_taps(wish.rows.end - 1, crop, wish, picture_rows);
  return {first.first, last.first + static_cast<std::int64_t>(last.weights.size())};
}

void resample(const Pixels& pixels, std::int64_t picture_rows, const Crop& crop, const Wish& wish,
              float* out) {
  std::vector<Taps> columns;
  for (std::int64_t x = wish.columns.begin; x < wish.columns.end; ++x)
    columns.push_back(taps_of(crop.mirrored ? wish.width - 1 - x : x, wish.width, crop.left,
                              crop.width, pixels.columns));
  if (columns.empty()) return;
  // Only the columns that are read are mixed.
  std::int64_t first = pixels.columns, last = 0;
  for (const Taps& taps : columns) {
    first = std::min(first, taps.first);
    last = std::max(last, taps.first + static_cast<std::int64_t>(taps.weights.size()));
  }
  for (Taps& taps : columns) taps.first -= first;
  const std::int64_t all = pixels.channels, count = (last - first) * all;
  std::vector<float> line(static_cast<std::size_t>(count));
  for (std::int64_t y = wish.rows.begin; y < wish.rows.end; ++y) {
    const Taps taps = row_taps(y, crop, wish, picture_rows);
    std::fill(line.begin(), line.end(), 0.0F);
    const std::uint8_t* row =
        pixels.values.data() + ((taps.first - pixels.first_row) * pixels.columns + first) * all;
    for (const float weight : taps.weights) {
      add_row(row, weight, count, line.data());
      row += pixels.columns * all;
    }
    mix_columns(line.data(), all, columns, wish, out);
    out += wish.columns.size() * wish.channels.size();
  }
}

}  // namespace tessera::data
