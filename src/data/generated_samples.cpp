// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/data/generated_samples.hpp"

#include <cstring>

#include "tessera/base/error.hpp"

namespace tessera::data {
namespace {

/// Copies the box of a dense array of `shape` to `out`, dense.
void copy_box(const Shape& shape, const Interval* box, std::size_t element, const std::byte* from,
              std::byte* out) {
  const int rank = shape.rank();
  const std::int64_t run = rank == 0 ? 1 : box[rank - 1].size();
  const std::int64_t total = volume(Box(box, box + rank));
  for (std::int64_t done = 0; done < total; done += run) {
    std::int64_t rest = done, at = 0, stride = 1;
    for (int d = rank - 1; d >= 0; --d) {
      at += (box[d].begin + rest % box[d].size()) * stride;
      rest /= box[d].size();
      stride *= shape[d].size;
    }
    std::memcpy(out + static_cast<std::size_t>(done) * element,
                from + static_cast<std::size_t>(at) * element,
                static_cast<std::size_t>(run) * element);
  }
}

class Generated final : public Samples {
 public:
  Generated(Generator generator, bool adds_weights)
      : generator_(std::move(generator)), adds_weights_(adds_weights) {}

  const std::vector<Field>& fields() const override { return generator_.fields; }
  std::int64_t per_epoch() const override { return generator_.per_epoch; }
  Count count(std::int64_t epoch, std::int64_t index) const override {
    if (adds_weights_) return {1, 1};
    const WholeSample sample = make(epoch, index);
    Count count;
    const auto& bytes = sample.bytes(field_index(*this, "weights"));
    for (std::size_t at = 0; at < bytes.size(); at += sizeof(float)) {
      float weight = 0;
      std::memcpy(&weight, bytes.data() + at, sizeof weight);
      count.targets += weight != 0;
      count.weight += static_cast<double>(weight);
    }
    return count;
  }
  void read(std::int64_t epoch, std::int64_t index, std::span<const Part> parts) const override {
    const WholeSample sample = make(epoch, index);
    for (const Part& part : parts) {
      const TensorSpec& spec = fields()[part.field].spec;
      copy_box(spec.shape, part.box, bytes_of(spec.dtype), sample.bytes(part.field).data(),
               static_cast<std::byte*>(part.out));
    }
  }
  /// Of a few samples: they are a function of their index.
  Digest digest() const override {
    Digest digest;
    for (const std::int64_t index : {std::int64_t{0}, per_epoch() / 2, per_epoch() - 1}) {
      const WholeSample sample = make(0, index);
      for (std::size_t field = 0; field < fields().size(); ++field)
        digest.add(std::string_view(reinterpret_cast<const char*>(sample.bytes(field).data()),
                                    sample.bytes(field).size()));
    }
    return digest.add(static_cast<std::uint64_t>(per_epoch()));
  }
  std::int64_t size() const override { return per_epoch(); }
  std::string unit() const override { return unit_of(fields()); }
  std::int64_t targets_per_sample() const override { return weights_of(fields()); }

 private:
  WholeSample make(std::int64_t epoch, std::int64_t index) const {
    WholeSample sample(fields());
    if (adds_weights_) sample.f32("weights")[0] = 1;
    generator_.make(epoch, index, sample);
    return sample;
  }

  Generator generator_;
  bool adds_weights_;
};

}  // namespace

WholeSample::WholeSample(const std::vector<Field>& fields) : fields_(fields) {
  for (const Field& field : fields)
    arrays_.emplace_back(static_cast<std::size_t>(field.spec.shape.size()) *
                         bytes_of(field.spec.dtype));
}

std::span<std::byte> WholeSample::array(const std::string& field, DType dtype) {
  for (std::size_t i = 0; i < fields_.size(); ++i) {
    if (fields_[i].name != field) continue;
    TESSERA_CHECK(fields_[i].spec.dtype == dtype, "field '", field, "' is of ",
                  name_of(fields_[i].spec.dtype), ", not of ", name_of(dtype));
    return arrays_[i];
  }
  TESSERA_CHECK(false, "a sample has no field '", field, "'");
}

std::span<float> WholeSample::f32(const std::string& field) {
  const auto bytes = array(field, DType::f32);
  return {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)};
}

std::span<std::int32_t> WholeSample::i32(const std::string& field) {
  const auto bytes = array(field, DType::i32);
  return {reinterpret_cast<std::int32_t*>(bytes.data()), bytes.size() / sizeof(std::int32_t)};
}

std::shared_ptr<const Samples> generated_samples(Generator generator) {
  check_user(generator.per_epoch >= 1, "an input pipeline makes ", generator.per_epoch,
             " samples; it must make at least 1");
  bool has_weights = false;
  for (const Field& field : generator.fields) has_weights = has_weights || field.name == "weights";
  if (!has_weights) generator.fields.push_back({"weights", {Shape{}, DType::f32}});
  return std::make_shared<Generated>(std::move(generator), !has_weights);
}

}  // namespace tessera::data
