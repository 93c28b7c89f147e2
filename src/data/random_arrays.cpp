// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>

#include "tessera/base/error.hpp"
#include "tessera/base/hash.hpp"
#include "tessera/base/philox.hpp"
#include "tessera/base/text.hpp"
#include "tessera/data/arrays.hpp"

namespace tessera::data {
namespace {

/// Values that are a function of seed, field, sample and element.
class RandomArrays final : public Samples {
 public:
  RandomArrays(std::vector<Field> fields, std::int64_t count, std::uint64_t seed)
      : fields_(std::move(fields)), count_(count), seed_(seed) {}

  const std::vector<Field>& fields() const override { return fields_; }
  std::int64_t per_epoch() const override { return count_; }
  Count count(std::int64_t, std::int64_t) const override {
    return {targets_per_sample(), static_cast<double>(targets_per_sample())};
  }
  void read(std::int64_t epoch, std::int64_t index, std::span<const Part> parts) const override {
    TESSERA_CHECK(epoch >= 0 && index >= 0 && index < count_, "sample ", index);
    for (const Part& part : parts) fill(fields_[part.field], index, part);
  }
  Digest digest() const override {
    return Digest{}.add(seed_).add(static_cast<std::uint64_t>(count_));
  }
  std::int64_t size() const override { return count_; }
  std::string unit() const override { return unit_of(fields_); }
  std::int64_t targets_per_sample() const override { return weights_of(fields_); }

 private:
  void fill(const Field& field, std::int64_t sample, const Part& part) const {
    const Shape& shape = field.spec.shape;
    const std::uint64_t key = stream_key(seed_, hash_text("data.random/" + field.name));
    const auto limit = static_cast<std::uint64_t>(field.limit > 0 ? field.limit : 2);
    const std::int64_t size = volume(Box(part.box, part.box + shape.rank()));
    for (std::int64_t i = 0; i < size; ++i) {
      std::int64_t rest = i, element = 0, stride = 1;
      for (int d = shape.rank() - 1; d >= 0; --d) {
        element += (part.box[d].begin + rest % part.box[d].size()) * stride;
        rest /= part.box[d].size();
        stride *= shape[d].size;
      }
      const std::uint64_t word =
          random_word(key, static_cast<std::uint64_t>(sample), static_cast<std::uint64_t>(element));
      if (field.spec.dtype == DType::i32)
        static_cast<std::int32_t*>(part.out)[i] = static_cast<std::int32_t>((word * limit) >> 32);
      else if (field.name == "weights")
        static_cast<float*>(part.out)[i] = 1;
      else
        static_cast<float*>(part.out)[i] =
            static_cast<float>(2 * uniform_of(static_cast<std::uint32_t>(word)) - 1);
    }
  }

  std::vector<Field> fields_;
  std::int64_t count_;
  std::uint64_t seed_;
};

}  // namespace

Corpus open_random_arrays(const DataConfig& config, const Wanted& wanted) {
  const auto count = config.random_tokens;
  const auto held =
      static_cast<std::int64_t>(static_cast<double>(count) * config.validation_fraction);
  std::vector<Field> fields = wanted.inputs;
  for (Field& field : fields)
    if (field.limit > 0 && config.vocab > 0) field.limit = std::min(field.limit, config.vocab);
  const std::uint64_t seed = order_seed(config, wanted);
  Corpus corpus;
  corpus.train = std::make_shared<RandomArrays>(fields, count - held, seed);
  if (held > 0) corpus.validation = std::make_shared<RandomArrays>(fields, held, ~seed);
  corpus.vocabulary = Vocabulary::numbers(wanted.vocab);
  corpus.text =
      concat(with_commas(count - held), " training and ", with_commas(held), " validation samples");
  return corpus;
}

}  // namespace tessera::data
