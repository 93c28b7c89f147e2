// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/data/column.hpp"

#include <bit>
#include <cstring>

#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"

namespace tessera::data {
namespace {

/// Rather this many bytes at once than many small pieces.
constexpr std::int64_t kReadAtOnce = 16384;

std::string dims_text(const std::vector<std::int64_t>& dims) {
  std::vector<std::string> texts;
  for (const std::int64_t dim : dims) texts.push_back(std::to_string(dim));
  return std::string("[").append(join(texts, ", ")).append("]");
}

/// Whether a dataset's dims behind the samples can be a field's.
bool fits(const std::vector<std::int64_t>& dataset, const Shape& shape) {
  std::vector<std::int64_t> stored, wanted;
  std::int64_t size = 1;
  for (std::size_t i = 1; i < dataset.size(); ++i) {
    if (dataset[i] != 1) stored.push_back(dataset[i]);
    size *= dataset[i];
  }
  for (const auto& dim : shape)
    if (dim.size != 1) wanted.push_back(dim.size);
  return !dataset.empty() && (stored == wanted || (shape.rank() <= 1 && size == shape.size()));
}

}  // namespace

/// One call of read: what is wanted, and where the next element goes.
struct ArrayColumn::Reading {
  std::int64_t sample = 0;
  const Interval* box = nullptr;
  unsigned char* out = nullptr;
};

ArrayColumn::ArrayColumn(const std::string& path, const io::DatasetInfo& dataset, Field field)
    : field_(std::move(field)),
      type_(dataset.type),
      samples_(dataset.shape.empty() ? 0 : dataset.shape[0]),
      offset_(dataset.attributes.real_or("offset", 0)),
      factor_(dataset.attributes.real_or("factor", 1)),
      name_(concat("data.path: ", path, ", dataset ", dataset.path)),
      file_({}) {
  using Kind = io::ElementType::Kind;
  const bool is_integer =
      type_.kind == Kind::unsigned_integer || type_.kind == Kind::signed_integer;
  const bool is_real = type_.kind == Kind::floating && type_.bytes == 4;
  check_user(is_integer || (is_real && field_.spec.dtype == DType::f32), name_,
             " cannot be the input '", field_.name, "' ", name_of(field_.spec.dtype),
             "; write integers", field_.spec.dtype == DType::f32 ? " or f32" : "");
  check_user(fits(dataset.shape, field_.spec.shape), name_, " has the dims ",
             dims_text(dataset.shape), ", but the model's input '", field_.name,
             "' is [samples] x ", field_.spec.shape.to_string());
  check_user(dataset.size() == 0 || dataset.offset >= 0, name_, " cannot be read in place (",
             dataset.obstacle,
             "); store it contiguous and uncompressed: h5repack -l CONTI -f NONE");
  std::int64_t slab = 1;
  for (int d = field_.spec.shape.rank() - 1; d >= 0; --d) {
    slab_.insert(slab_.begin(), slab);
    slab *= field_.spec.shape[d].size;
  }
  file_ = FileSet({{path, dataset.offset, dataset.size() * type_.bytes}});
}

void ArrayColumn::read(const Draw& draw, const Interval* box, void* out) const {
  Reading reading{draw.sample, box, static_cast<unsigned char*>(out)};
  read_block(0, draw.sample * field_.spec.shape.size(), reading);
}

/// Reads the box's part of the elements from `first` on, which are one index of all dims before
/// `dim`: at once where little is read in vain, else piece by piece.
void ArrayColumn::read_block(int dim, std::int64_t first, Reading& reading) const {
  const int rank = field_.spec.shape.rank();
  const std::int64_t slab = dim < rank ? slab_[static_cast<std::size_t>(dim)] : 1;
  const Interval wanted = dim < rank ? reading.box[dim] : Interval{0, 1};
  const std::int64_t count = wanted.size() * slab * type_.bytes;
  if (dim + 1 < rank && count > kReadAtOnce) {
    for (std::int64_t i = wanted.begin; i < wanted.end; ++i)
      read_block(dim + 1, first + i * slab, reading);
    return;
  }
  std::vector<unsigned char> bytes(static_cast<std::size_t>(count));
  file_.read((first + wanted.begin * slab) * type_.bytes, count, bytes.data());
  if (dim + 1 >= rank) return convert(bytes.data(), wanted.size() * slab, reading);
  for (std::int64_t i = 0; i < wanted.size(); ++i)
    cut_block(dim + 1, bytes.data() + i * slab * type_.bytes, reading);
}

void ArrayColumn::cut_block(int dim, const unsigned char* bytes, Reading& reading) const {
  const std::int64_t slab = slab_[static_cast<std::size_t>(dim)] * type_.bytes;
  const Interval& wanted = reading.box[dim];
  if (dim + 1 == field_.spec.shape.rank())
    return convert(bytes + wanted.begin * slab, wanted.size(), reading);
  for (std::int64_t i = wanted.begin; i < wanted.end; ++i)
    cut_block(dim + 1, bytes + i * slab, reading);
}

void ArrayColumn::convert(const unsigned char* from, std::int64_t count, Reading& reading) const {
  if (type_.kind == io::ElementType::Kind::floating) return convert_as<float>(from, count, reading);
  const bool is_signed = type_.kind == io::ElementType::Kind::signed_integer;
  switch (type_.bytes) {
    case 1:
      return is_signed ? convert_as<std::int8_t>(from, count, reading)
                       : convert_as<std::uint8_t>(from, count, reading);
    case 2:
      return is_signed ? convert_as<std::int16_t>(from, count, reading)
                       : convert_as<std::uint16_t>(from, count, reading);
    case 4:
      return is_signed ? convert_as<std::int32_t>(from, count, reading)
                       : convert_as<std::uint32_t>(from, count, reading);
    default:
      return convert_as<std::int64_t>(from, count, reading);
  }
}

template <class Stored>
void ArrayColumn::convert_as(const unsigned char* from, std::int64_t count,
                             Reading& reading) const {
  const std::int64_t limit = field_.limit > 0 ? field_.limit : std::int64_t{1} << 31;
  for (std::int64_t i = 0; i < count; ++i) {
    Stored stored;
    std::memcpy(&stored, from + static_cast<std::size_t>(i) * sizeof stored, sizeof stored);
    if (field_.spec.dtype == DType::f32) {
      const auto value = static_cast<float>((static_cast<double>(stored) - offset_) * factor_);
      std::memcpy(reading.out, &value, sizeof value);
      reading.out += sizeof value;
      continue;
    }
    const auto id = static_cast<std::int64_t>(stored);
    check_user(id < limit && (id >= 0 || field_.limit == 0), name_, ": sample ", reading.sample,
               " holds ", id, ", which is not in [0, ", limit, ")");
    const auto value = static_cast<std::int32_t>(id);
    std::memcpy(reading.out, &value, sizeof value);
    reading.out += sizeof value;
  }
}

Digest ArrayColumn::digest() const {
  return file_.digest()
      .add(static_cast<std::uint64_t>(samples_))
      .add(std::bit_cast<std::uint64_t>(offset_))
      .add(std::bit_cast<std::uint64_t>(factor_));
}

}  // namespace tessera::data
