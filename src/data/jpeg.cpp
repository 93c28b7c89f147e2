// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/data/jpeg.hpp"

#include "tessera/base/error.hpp"

#ifdef TESSERA_HAVE_JPEG

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <string>

#include <jpeglib.h>
// After jpeglib.h, which it needs.
#include <jerror.h>

namespace tessera::data {
namespace {

/// libjpeg's error handler: it jumps back to whoever called libjpeg last, with a message.
struct Handler {
  jpeg_error_mgr base;  // first: libjpeg knows nothing else
  std::jmp_buf back;
  char message[JMSG_LENGTH_MAX];
};

Handler& handler_of(j_common_ptr info) {
  return *reinterpret_cast<Handler*>(info->err);
}

[[noreturn]] void leave(j_common_ptr info) {
  Handler& handler = handler_of(info);
  handler.base.format_message(info, handler.message);
  std::longjmp(handler.back, 1);
}

/// A file that ends too early is an error, as it is to other readers and to prepare_images.py; of
/// what libjpeg warns of besides nothing is to be told.
void heed(j_common_ptr info, int level) {
  if (level < 0 && info->err->msg_code == JWRN_JPEG_EOF) leave(info);
}

void say_nothing(j_common_ptr) {}

/// (255 - c)(255 - k) / 255, as printing inks darken white; files of Adobe's programs hold the
/// inverse of both.
void mix_inks(const std::uint8_t* inks, bool inverted, std::int64_t columns, int channels,
              std::uint8_t* out) {
  for (std::int64_t x = 0; x < columns; ++x, inks += 4) {
    int rgb[3];
    for (int c = 0; c < 3; ++c) {
      const int ink = inverted ? inks[c] : 255 - inks[c],
                black = inverted ? inks[3] : 255 - inks[3];
      rgb[c] = (ink * black + 127) / 255;
    }
    if (channels == 3)
      for (const int value : rgb) *out++ = static_cast<std::uint8_t>(value);
    else  // Rec. 601, as libjpeg's own grey
      *out++ = static_cast<std::uint8_t>((299 * rgb[0] + 587 * rgb[1] + 114 * rgb[2] + 500) / 1000);
  }
}

}  // namespace

struct Jpeg::Impl {
  jpeg_decompress_struct info{};
  Handler handler{};

  // Functions that call libjpeg hold nothing that a jump would not destroy. False: it failed.
  bool open(const unsigned char* bytes, std::size_t count) {
    info.err = jpeg_std_error(&handler.base);
    handler.base.error_exit = leave;
    handler.base.emit_message = heed;
    handler.base.output_message = say_nothing;
    if (setjmp(handler.back) != 0) return false;
    jpeg_create_decompress(&info);
    jpeg_mem_src(&info, const_cast<unsigned char*>(bytes), static_cast<unsigned long>(count));
    jpeg_read_header(&info, TRUE);
    return true;
  }

  bool start(int channels, int shrink) {
    if (setjmp(handler.back) != 0) return false;
    const bool has_inks = info.num_components == 4;
    info.out_color_space = has_inks ? JCS_CMYK : channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    info.scale_num = 1;
    info.scale_denom = static_cast<unsigned>(shrink);
    jpeg_start_decompress(&info);
    return true;
  }

  /// Reads one row.
  bool read(std::uint8_t* row) {
    if (setjmp(handler.back) != 0) return false;
    jpeg_read_scanlines(&info, &row, 1);
    return true;
  }

  [[noreturn]] void fail() const { throw Error(handler.message); }
};

Jpeg::Jpeg(std::span<const unsigned char> bytes) : impl_(std::make_unique<Impl>()) {
  if (impl_->open(bytes.data(), bytes.size())) return;
  jpeg_destroy_decompress(&impl_->info);
  impl_->fail();
}
Jpeg::~Jpeg() {
  jpeg_destroy_decompress(&impl_->info);
}

bool Jpeg::is_available() {
  return true;
}

std::int64_t Jpeg::rows() const {
  return impl_->info.image_height;
}
std::int64_t Jpeg::columns() const {
  return impl_->info.image_width;
}

Pixels Jpeg::decode(int channels, int shrink, std::int64_t begin, std::int64_t end) {
  auto& info = impl_->info;
  if (!impl_->start(channels, shrink)) impl_->fail();
  const bool has_inks = info.out_color_space == JCS_CMYK;
  Pixels pixels;
  pixels.first_row = begin;
  pixels.rows = std::min<std::int64_t>(end, info.output_height) - begin;
  pixels.columns = info.output_width;
  pixels.channels = channels;
  const std::int64_t stride = pixels.columns * channels;
  pixels.values.resize(static_cast<std::size_t>(std::max<std::int64_t>(pixels.rows, 0) * stride));
  std::vector<std::uint8_t> scratch(static_cast<std::size_t>(pixels.columns * 4));
  for (std::int64_t row = 0; row < begin + pixels.rows; ++row) {
    std::uint8_t* out = row < begin ? nullptr : pixels.values.data() + (row - begin) * stride;
    if (!impl_->read(out && !has_inks ? out : scratch.data())) impl_->fail();
    if (out && has_inks)
      mix_inks(scratch.data(), info.saw_Adobe_marker != FALSE, pixels.columns, channels, out);
  }
  jpeg_abort_decompress(&info);
  return pixels;
}

}  // namespace tessera::data

#else

namespace tessera::data {

struct Jpeg::Impl {};

Jpeg::Jpeg(std::span<const unsigned char>) {
  throw Error("this build of Tessera has no libjpeg");
}
Jpeg::~Jpeg() = default;
bool Jpeg::is_available() {
  return false;
}
std::int64_t Jpeg::rows() const {
  return 0;
}
std::int64_t Jpeg::columns() const {
  return 0;
}
Pixels Jpeg::decode(int, int, std::int64_t, std::int64_t) {
  return {};
}

}  // namespace tessera::data

#endif
