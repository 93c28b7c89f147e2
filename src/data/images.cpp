// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/data/images.hpp"

#include <algorithm>
#include <cmath>

#include "data/token_parts.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/hash.hpp"
#include "tessera/base/number.hpp"
#include "tessera/base/philox.hpp"
#include "tessera/base/text.hpp"
#include "tessera/data/arrays.hpp"
#include "tessera/data/picture.hpp"

namespace tessera::data {
namespace {

/// What all pictures of a source have in common.
struct Format {
  PictureConfig config;
  std::int64_t height = 0, width = 0, channels = 0;
  std::int64_t shorter = 0;
  std::uint64_t key = 0;            // of the random cuts
  std::vector<float> factor, term;  // for each channel
};

std::vector<double> numbers_of(const char* key, const std::vector<std::string>& texts,
                               std::int64_t channels) {
  std::vector<double> numbers;
  for (const std::string& text : texts) {
    check_user(parse_number(text, numbers.emplace_back()), key, ": '", text, "' is not a number");
  }
  check_user(numbers.size() == 1 || static_cast<std::int64_t>(numbers.size()) == channels, key,
             " has ", numbers.size(), " numbers; give ", channels,
             ", one for each channel of the model's pictures, or one for all");
  numbers.resize(static_cast<std::size_t>(channels), numbers.back());
  return numbers;
}

Format format_of(const DataConfig& config, const Wanted& wanted) {
  Format format;
  format.config = config.picture;
  for (const Field& field : wanted.inputs) {
    if (field.name != "image") continue;
    const Shape& shape = field.spec.shape;
    check_user(
        shape.rank() == 3 && field.spec.dtype == DType::f32 &&
            (shape[2].size == 1 || shape[2].size == 3),
        "data.source = images gives pictures [height, width, channels:1 or 3] f32, but model '",
        wanted.model, "' wants ", shape.to_string(), " ", name_of(field.spec.dtype),
        "; set model.channels to 3 (colours) or 1 (grey)");
    format.height = shape[0].size;
    format.width = shape[1].size;
    format.channels = shape[2].size;
  }
  check_user(format.channels > 0, "data.source = images gives the input 'image', which model '",
             wanted.model, "' does not have; take another data.source or model.name");
  const std::int64_t longer = std::max(format.height, format.width);
  format.shorter = config.picture.shorter > 0 ? config.picture.shorter : (longer * 8 + 6) / 7;
  check_user(format.shorter >= longer, "data.picture_shorter = ", format.shorter,
             " is less than the model's pictures of ", format.height, " x ", format.width,
             "; give at least ", longer, ", or 0");
  const auto mean = numbers_of("data.picture_mean", config.picture.mean, format.channels);
  const auto deviation =
      numbers_of("data.picture_deviation", config.picture.deviation, format.channels);
  for (std::size_t c = 0; c < mean.size(); ++c) {
    check_user(deviation[c] > 0, "data.picture_deviation holds ", deviation[c],
               "; it must be greater than 0");
    format.factor.push_back(static_cast<float>(1 / (255 * deviation[c])));
    format.term.push_back(static_cast<float>(-mean[c] / deviation[c]));
  }
  format.key = stream_key(order_seed(config, wanted), hash_text("data.images/crop"));
  return format;
}

class PictureColumn final : public Column {
 public:
  PictureColumn(const std::string& path, std::string name, const io::DatasetInfo& bytes,
                std::vector<std::int64_t> ends, std::shared_ptr<const Format> format)
      : name_(concat("data.path: ", path, ", ", name)),
        ends_(std::move(ends)),
        format_(std::move(format)),
        file_({{path, bytes.offset, bytes.size()}}) {
    std::int64_t begin = 0;
    for (const std::int64_t end : ends_) {
      check_user(end > begin && end <= bytes.size(), name_, "/ends: ", end, " behind ", begin,
                 " of ", bytes.size(), " bytes; write the file again (tools/prepare_images.py)");
      begin = end;
    }
  }

  std::int64_t samples() const override { return static_cast<std::int64_t>(ends_.size()); }

  void read(const Draw& draw, const Interval* box, void* out) const override {
    const auto sample = static_cast<std::size_t>(draw.sample);
    const std::int64_t begin = sample == 0 ? 0 : ends_[sample - 1];
    std::vector<unsigned char> bytes(static_cast<std::size_t>(ends_[sample] - begin));
    file_.read(begin, ends_[sample] - begin, bytes.data());
    try {
      decode(bytes, draw, box, static_cast<float*>(out));
    } catch (const Error& error) {
      throw UserError(concat(name_, ": picture ", draw.sample, " is no whole JPEG: ", error.what(),
                             "; leave it out (tools/prepare_images.py checks each)"));
    }
  }

  Digest digest() const override {
    Digest digest = file_.digest();
    for (const std::int64_t end : ends_) digest.add(static_cast<std::uint64_t>(end));
    return digest;
  }

 private:
  void decode(const std::vector<unsigned char>& bytes, const Draw& draw, const Interval* box,
              float* out) const {
    const Format& format = *format_;
    Jpeg jpeg(bytes);
    Crop crop =
        draw.training && format.config.augment
            ? random_crop(format.config, format.key, draw.epoch, draw.index, jpeg.rows(),
                          jpeg.columns())
            : middle_crop(format.shorter, format.height, format.width, jpeg.rows(), jpeg.columns());
    const int shrink = shrink_for(crop, format.height, format.width);
    for (double* length : {&crop.top, &crop.left, &crop.height, &crop.width}) *length /= shrink;
    const std::int64_t rows = (jpeg.rows() + shrink - 1) / shrink;
    const Wish wish{format.height,        format.width,      box[0], box[1], box[2],
                    format.factor.data(), format.term.data()};
    const Interval wanted = rows_read(crop, wish, rows);
    const Pixels pixels =
        jpeg.decode(static_cast<int>(format.channels), shrink, wanted.begin, wanted.end);
    resample(pixels, rows, crop, wish, out);
  }

  std::string name_;
  std::vector<std::int64_t> ends_;
  std::shared_ptr<const Format> format_;
  FileSet file_;
};

ColumnPtr open_pictures(const std::string& path, const io::FileIndex& index,
                        const std::string& name, const std::shared_ptr<const Format>& format) {
  const io::DatasetInfo* bytes = index.find(name + "/bytes");
  const io::DatasetInfo* ends = index.find(name + "/ends");
  if (!bytes || !ends) {
    check_user(!index.find(name), "data.path: ", path, ": ", name,
               " is an array; read it with data.source = arrays");
    return nullptr;
  }
  const bool is_bytes = bytes->type == io::ElementType{io::ElementType::Kind::unsigned_integer, 1};
  check_user(is_bytes && bytes->shape.size() == 1 && (bytes->size() == 0 || bytes->offset >= 0),
             "data.path: ", path, ", dataset ", bytes->path,
             " is not a list of u8 in one piece; write it with tools/prepare_images.py");
  return std::make_shared<PictureColumn>(path, name, *bytes, read_integers(path, *ends), format);
}

}  // namespace

Corpus open_images(const DataConfig& config, const Wanted& wanted) {
  check_user(Jpeg::is_available(),
             "data.source = images: this build has no libjpeg; install it (Debian "
             "libjpeg62-turbo-dev, Spack libjpeg-turbo) and configure Tessera again");
  const auto format = std::make_shared<const Format>(format_of(config, wanted));
  return open_columns(config, wanted,
                      [&](const std::string& path, const io::FileIndex& index,
                          const std::string& name, const Field& field) {
                        return field.name == "image" ? open_pictures(path, index, name, format)
                                                     : open_array_column(path, index, name, field);
                      });
}

}  // namespace tessera::data
