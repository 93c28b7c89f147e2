// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/data/arrays.hpp"

#include <algorithm>
#include <map>

#include "data/writer.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/scratch.hpp"
#include "tessera/data/column.hpp"
#include "tessera/data/loader.hpp"

namespace tessera::data {
namespace {

using test::contains;
using test::message_of;
using test::Scratch;
using test::Writer;
using Kind = io::ElementType::Kind;

constexpr std::int64_t kHeight = 5, kWidth = 7, kChannels = 2;

std::uint8_t pixel(std::int64_t sample, std::int64_t element) {
  return static_cast<std::uint8_t>((sample * 31 + element * 7) % 251);
}

Wanted pictures() {
  const Shape image{{"height", kHeight}, {"width", kWidth}, {"channels", kChannels}};
  return {"painter",
          {{"image", {image, DType::f32}},
           {"label", {Shape{}, DType::i32}, 10},
           {"weights", {Shape{}, DType::f32}}},
          10,
          3};
}

/// `samples` pictures with labels 0, 1, … in a part of a file.
void add_pictures(Writer& writer, const std::string& part, std::int64_t samples) {
  std::vector<std::uint8_t> pixels, labels;
  for (std::int64_t s = 0; s < samples; ++s) {
    labels.push_back(static_cast<std::uint8_t>(s % 10));
    for (std::int64_t e = 0; e < kHeight * kWidth * kChannels; ++e) pixels.push_back(pixel(s, e));
  }
  writer
      .add("/" + part + "/image", {samples, kHeight, kWidth, kChannels}, pixels,
           Kind::unsigned_integer)
      .set("offset", std::int64_t{3})  // what h5py makes of a whole number
      .set("factor", 0.5);
  writer.add("/" + part + "/label", {samples, 1}, labels, Kind::unsigned_integer);
}

DataConfig config_of(const std::string& path) {
  DataConfig config;
  config.source = "arrays";
  config.path = {path};
  config.batch = 4;
  return config;
}

TEST_CASE("Each tile of a picture is read from its place, under any cut, in chunks or whole") {
  const Scratch scratch;
  Writer writer(scratch.path("pictures.h5"));
  add_pictures(writer, "train", 11);
  add_pictures(writer, "validation", 3);
  const Corpus corpus = open_corpus(config_of(writer.write()), pictures());
  CHECK(corpus.text == "1 file, 11 training and 3 validation samples");
  REQUIRE(corpus.validation);
  REQUIRE(corpus.validation->per_epoch() == 3);
  for (const Box& box : std::vector<Box>{{{0, 5}, {0, 7}, {0, 2}},
                                         {{2, 4}, {0, 7}, {0, 2}},
                                         {{0, 5}, {3, 7}, {0, 2}},
                                         {{1, 2}, {2, 5}, {1, 2}},
                                         {{4, 5}, {0, 1}, {0, 1}}})
    for (std::int64_t sample = 0; sample < 3; ++sample) {
      std::vector<float> values(static_cast<std::size_t>(volume(box)));
      const Samples::Part part{0, box.data(), values.data()};
      corpus.validation->read(0, sample, {&part, 1});
      std::size_t at = 0;
      for (std::int64_t h = box[0].begin; h < box[0].end; ++h)
        for (std::int64_t w = box[1].begin; w < box[1].end; ++w)
          for (std::int64_t c = box[2].begin; c < box[2].end; ++c, ++at)
            CHECK(values[at] == (pixel(sample, (h * kWidth + w) * kChannels + c) - 3.0F) * 0.5F);
    }
}

TEST_CASE("Big arrays are read in pieces where little of them is wanted") {
  const Scratch scratch;
  const std::int64_t rows = 9, columns = 9000;
  std::vector<float> values;
  for (std::int64_t i = 0; i < 2 * rows * columns; ++i) values.push_back(static_cast<float>(i));
  Writer writer(scratch.path("field.h5"));
  writer.add("/train/x", {2, rows, columns}, values, Kind::floating);
  const Field field{"x", {Shape{{"row", rows}, {"column", columns}}, DType::f32}};
  const io::FileIndex index = io::read_index(writer.write());
  const ArrayColumn column(scratch.path("field.h5"), *index.find("/train/x"), field);
  for (const Box& box :
       std::vector<Box>{{{0, 9}, {0, 9000}}, {{3, 8}, {100, 8000}}, {{2, 9}, {17, 18}}}) {
    std::vector<float> out(static_cast<std::size_t>(volume(box)));
    column.read({.sample = 1}, box.data(), out.data());
    std::size_t at = 0;
    bool is_right = true;
    for (std::int64_t r = box[0].begin; r < box[0].end; ++r)
      for (std::int64_t c = box[1].begin; c < box[1].end; ++c, ++at)
        is_right =
            is_right && out[at] == values[static_cast<std::size_t>((rows + r) * columns + c)];
    CHECK(is_right);
  }
}

TEST_CASE("Loaded pictures keep their labels; rows that fill a batch up weigh nothing") {
  const Scratch scratch;
  Writer writer(scratch.path("pictures.h5"));
  add_pictures(writer, "train", 10);
  DataConfig config = config_of(writer.write());
  config.validation_fraction = 0;
  const Corpus corpus = open_corpus(config, pictures());
  CHECK(corpus.validation == nullptr);
  const std::vector<Box> boxes = {{{0, 2}, {1, 3}, {0, 7}, {0, 2}},
                                  {{2, 4}, {3, 5}, {0, 7}, {0, 2}}};
  const std::vector<Box> rows = {{{0, 2}}, {{2, 4}}};
  Loader loader(corpus.train, {4}, {{"image", boxes}, {"weights", rows}, {"label", rows}});
  std::map<std::int32_t, int> seen;
  for (int i = 0; i < 3; ++i) {
    const Batch batch = *loader.next();
    CHECK(batch.targets == batch.rows);
    double weight = 0;
    for (std::size_t rank = 0; rank < 2; ++rank) {
      const TileData& tile = batch.tiles.at(0).at(rank);
      for (std::size_t row = 0; row < 2; ++row) {
        const float own = tile.as<float>(1)[row];
        weight += static_cast<double>(own);
        const std::int32_t label = tile.as<std::int32_t>(2)[row];
        const float first = tile.as<float>(0)[row * 28];
        if (own == 0) {
          CHECK(first == 0);
          continue;
        }
        ++seen[label];
        const std::int64_t element = (rank == 0 ? 1 : 3) * kWidth * kChannels;
        CHECK(first == (pixel(label, element) - 3.0F) * 0.5F);
      }
    }
    CHECK(weight == batch.weight);
    CHECK(weight == (i < 2 ? 4 : 2));
  }
  CHECK(seen.size() == 10);
}

TEST_CASE("Weights of a file count; flat inputs take pictures whole") {
  const Scratch scratch;
  Writer writer(scratch.path("flat.h5"));
  add_pictures(writer, "train", 4);
  writer.add("/train/weights", std::vector<float>{1, 0, 2, 0.5F}, Kind::floating);
  Wanted wanted = pictures();
  wanted.inputs[0].spec.shape = Shape{{"io", kHeight * kWidth * kChannels}};
  DataConfig config = config_of(writer.write());
  config.validation_fraction = 0;
  const Corpus corpus = open_corpus(config, wanted);
  Loader loader(corpus.train, {4}, {});
  const Batch batch = *loader.next();
  CHECK(batch.weight == 3.5);
  CHECK(batch.targets == 3);
}

TEST_CASE("What does not fit is refused with the names of file, dataset and input") {
  const Scratch scratch;
  Writer writer(scratch.path("bad.h5"));
  add_pictures(writer, "train", 4);
  const DataConfig config = config_of(writer.write());
  const auto refused = [&](const std::function<void(Wanted&)>& change) {
    Wanted wanted = pictures();
    change(wanted);
    return message_of<UserError>([&] { open_corpus(config, wanted); });
  };
  CHECK(refused([](Wanted&) {}).empty());
  CHECK(contains(refused([](Wanted& w) { w.inputs[1].name = "class"; }),
                 "has no dataset /train/class"));
  CHECK(contains(refused([](Wanted& w) {
                   w.inputs[0].spec.shape = Shape{{"height", 6}, {"width", 7}, {"channels", 2}};
                 }),
                 "has the dims [4, 5, 7, 2], but the model's input 'image'"));
  DataConfig apart = config;
  apart.validation = {scratch.path("none.h5")};
  CHECK(contains(message_of<UserError>([&] { open_corpus(apart, pictures()); }),
                 "data.validation: there is no file or folder"));
  Wanted few = pictures();
  few.inputs[1].limit = 3;
  const Corpus corpus = open_corpus(config, few);
  std::int32_t label = 0;
  const Samples::Part part{1, nullptr, &label};
  CHECK(contains(message_of<UserError>([&] {
                   for (int i = 0; i < corpus.train->per_epoch(); ++i)
                     corpus.train->read(0, i, {&part, 1});
                   corpus.validation->read(0, 0, {&part, 1});
                 }),
                 "sample 3 holds 3, which is not in [0, 3)"));
}

TEST_CASE("Random arrays do not depend on how they are cut") {
  Wanted wanted = pictures();
  DataConfig config;
  config.source = "random";
  config.random_tokens = 20;
  const Corpus corpus = open_corpus(config, wanted);
  CHECK(corpus.train->per_epoch() == 19);
  const Box whole = {{0, 5}, {0, 7}, {0, 2}}, part_box = {{2, 4}, {1, 5}, {1, 2}};
  std::vector<float> all(70), some(8);
  const Samples::Part a{0, whole.data(), all.data()}, b{0, part_box.data(), some.data()};
  corpus.train->read(0, 7, {&a, 1});
  corpus.train->read(0, 7, {&b, 1});
  for (std::size_t h = 0; h < 2; ++h)
    for (std::size_t w = 0; w < 4; ++w)
      CHECK(some[h * 4 + w] == all[((h + 2) * 7 + w + 1) * 2 + 1]);
  CHECK(*std::min_element(all.begin(), all.end()) < -0.5F);
  CHECK(*std::max_element(all.begin(), all.end()) > 0.5F);
}

}  // namespace
}  // namespace tessera::data
