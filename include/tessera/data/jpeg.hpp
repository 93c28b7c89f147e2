// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace tessera::data {

/// A picture's pixels, or some rows of them: u8 [rows, columns, channels].
struct Pixels {
  std::int64_t first_row = 0;  ///< of the picture, in front of which none was kept
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t channels = 0;
  std::vector<std::uint8_t> values;
};

/// A JPEG whose header was read; decoded by libjpeg(-turbo). The bytes must live as long. Errors
/// are Error with libjpeg's own words, also where a picture ends early (libjpeg would go on with
/// grey): who knows the picture's name says it.
class Jpeg {
 public:
  explicit Jpeg(std::span<const unsigned char> bytes);
  ~Jpeg();
  Jpeg(const Jpeg&) = delete;
  Jpeg& operator=(const Jpeg&) = delete;

  /// False in a build without libjpeg, where the constructor throws.
  static bool is_available();

  std::int64_t rows() const;
  std::int64_t columns() const;
  /// Decodes once: the rows [begin, end) of the picture at 1/shrink of its size (1, 2, 4 or 8,
  /// rounded up; libjpeg then computes fewer frequencies), in 1 channel (grey) or 3 (RGB). Any
  /// coding becomes either: grey, YCbCr, RGB, CMYK and YCCK.
  Pixels decode(int channels, int shrink, std::int64_t begin, std::int64_t end);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera::data
