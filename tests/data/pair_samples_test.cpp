// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/data/pair_samples.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "data/writer.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/scratch.hpp"
#include "tessera/data/loader.hpp"
#include "tessera/data/pair_source.hpp"

namespace tessera::data {
namespace {

using test::contains;
using test::message_of;
using test::Scratch;
using Ids = std::vector<std::int32_t>;

/// Pair i has a source of 1 + i % 5 ids and a target of 1 + i % 3, the last of them 1; the others
/// tell pair and place.
PairsPtr make_pairs(std::int64_t count) {
  Ids source, target;
  std::vector<std::int64_t> source_ends, target_ends;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto append = [&](Ids& ids, std::vector<std::int64_t>& ends, std::int64_t size) {
      for (std::int64_t at = 0; at + 1 < size; ++at)
        ids.push_back(static_cast<std::int32_t>(100 * (i + 1) + at));
      ids.push_back(1);
      ends.push_back(static_cast<std::int64_t>(ids.size()));
    };
    append(source, source_ends, 1 + i % 5);
    append(target, target_ends, 1 + i % 3);
  }
  return std::make_shared<Pairs>(from_ids(source, "source"), source_ends,
                                 from_ids(target, "target"), target_ends);
}

PairStream stream_of(std::int64_t count) {
  return {make_pairs(count), {0, count}, 1, "pairs"};
}

/// All fields of a row.
struct WholeRow {
  WholeRow(const PairSamples& samples, std::int64_t epoch, std::int64_t index)
      : WholeRow(samples, epoch, index, {0, samples.targets_per_sample()}) {}
  WholeRow(const PairSamples& samples, std::int64_t epoch, std::int64_t index, Interval columns) {
    weights.resize(static_cast<std::size_t>(columns.size()));
    std::vector<Samples::Part> parts;
    for (std::size_t f = 0; f < samples.fields().size(); ++f) {
      const std::string& name = samples.fields()[f].name;
      if (name == "weights") {
        parts.push_back({f, &columns, weights.data()});
        continue;
      }
      ids[name].resize(static_cast<std::size_t>(columns.size()));
      parts.push_back({f, &columns, ids[name].data()});
    }
    samples.read(epoch, index, parts);
  }
  std::map<std::string, Ids> ids;
  std::vector<float> weights;
};

TEST_CASE("Rows hold whole pairs, told apart by segments and positions") {
  for (const bool together : {true, false})
    for (const auto kind : {Order::Kind::shuffled, Order::Kind::sequential}) {
      const PairStream stream = stream_of(41);
      const PairSamples samples({stream}, 8, together, 5, kind);
      std::map<std::int64_t, int> seen;
      std::int64_t targets = 0;
      for (std::int64_t index = 0; index < samples.per_epoch(); ++index) {
        const auto row = samples.at(2, index);
        if (!together) CHECK(row.pairs.size() == 1);
        const WholeRow whole(samples, 2, index);
        std::size_t source = 0, target = 0;
        for (std::size_t p = 0; p < row.pairs.size(); ++p) {
          ++seen[row.pairs[p]];
          const auto segment = static_cast<std::int32_t>(p + 1);
          const std::int64_t pair = row.pairs[p];
          const auto id = [&](std::int64_t at, std::int64_t size) {
            return at + 1 == size ? 1 : static_cast<std::int32_t>(100 * (pair + 1) + at);
          };
          for (std::int64_t at = 0; at < 1 + pair % 5; ++at, ++source) {
            CHECK(whole.ids.at("source")[source] == id(at, 1 + pair % 5));
            CHECK(whole.ids.at("source_segments")[source] == segment);
            CHECK(whole.ids.at("source_positions")[source] == at);
          }
          for (std::int64_t at = 0; at < 1 + pair % 3; ++at, ++target) {
            CHECK(whole.ids.at("targets")[target] == id(at, 1 + pair % 3));
            CHECK(whole.ids.at("tokens")[target] == (at == 0 ? 0 : id(at - 1, 1 + pair % 3)));
            CHECK(whole.ids.at("segments")[target] == segment);
            CHECK(whole.ids.at("positions")[target] == at);
            CHECK(whole.weights[target] == 1);
          }
        }
        for (; source < 8; ++source) CHECK(whole.ids.at("source_segments")[source] == 0);
        CHECK(samples.count(2, index).targets == static_cast<std::int64_t>(target));
        targets += static_cast<std::int64_t>(target);
        for (; target < 8; ++target) {
          CHECK(whole.ids.at("segments")[target] == 0);
          CHECK(whole.weights[target] == 0);
        }
      }
      CHECK(seen.size() == 41);
      for (const auto& [pair, count] : seen) CHECK(count == 1);
      CHECK(samples.size() == targets);
      if (together) CHECK(samples.per_epoch() < 20);  // 119 source ids in rows of 8
    }
}

TEST_CASE("A part of a row is that part of the whole row") {
  const PairSamples samples({stream_of(30)}, 12, true, 5, Order::Kind::shuffled);
  for (std::int64_t index = 0; index < samples.per_epoch(); ++index) {
    const WholeRow whole(samples, 0, index);
    for (const Interval& columns : {Interval{0, 4}, Interval{3, 9}, Interval{11, 12}}) {
      const WholeRow part(samples, 0, index, columns);
      for (const auto& [name, ids] : part.ids) {
        const auto& all = whole.ids.at(name);
        CHECK(ids == Ids(all.begin() + columns.begin, all.begin() + columns.end));
      }
    }
  }
}

TEST_CASE("Packing is a function of the seed; pairs that are too long are left out and counted") {
  const auto rows = [](std::uint64_t seed) {
    std::vector<std::vector<std::int64_t>> rows;
    const PairSamples samples({stream_of(50)}, 9, true, seed, Order::Kind::shuffled);
    for (std::int64_t i = 0; i < samples.per_epoch(); ++i) rows.push_back(samples.at(0, i).pairs);
    return rows;
  };
  CHECK(rows(1) == rows(1));
  CHECK(rows(1) != rows(2));
  const PairSamples few({stream_of(50)}, 4, true, 1, Order::Kind::shuffled);
  CHECK(few.left_out() == 10);
  CHECK(contains(message_of<UserError>([] {
                   const auto pairs = std::make_shared<Pairs>(
                       from_ids({5, 6, 1}, "s"), std::vector<std::int64_t>{3}, from_ids({1}, "t"),
                       std::vector<std::int64_t>{1});
                   PairSamples({{pairs, {0, 1}, 1, "long.h5"}}, 2, true, 1, Order::Kind::shuffled);
                 }),
                 "no pair of 'long.h5' fits into data.length = 2"));
}

TEST_CASE("Every mesh loads the same rows") {
  const auto samples = std::make_shared<PairSamples>(std::vector<PairStream>{stream_of(60)}, 10,
                                                     true, 3, Order::Kind::shuffled);
  Loader whole(samples, {4}, {{"tokens", {{{0, 4}, {0, 10}}}}});
  const std::vector<Box> halves = {{{0, 2}, {0, 5}}, {{0, 2}, {5, 10}}};
  Loader cut(samples, {4, 2}, {{"tokens", halves}});
  for (int i = 0; i < 5; ++i) {
    const Batch one = *whole.next(), other = *cut.next();
    CHECK(one.weight == other.weight);
    const auto wanted = one.tiles.at(0).at(0).as<std::int32_t>(0);
    for (std::size_t micro = 0; micro < 2; ++micro)
      for (std::size_t rank = 0; rank < 2; ++rank)
        for (std::size_t row = 0; row < 2; ++row)
          for (std::size_t at = 0; at < 5; ++at)
            CHECK(other.tiles.at(micro).at(rank).as<std::int32_t>(0)[row * 5 + at] ==
                  wanted[(micro * 2 + row) * 10 + rank * 5 + at]);
  }
}

DataConfig config_of(std::vector<std::string> path) {
  DataConfig config;
  config.source = "pairs";
  config.path = std::move(path);
  config.length = 16;
  return config;
}

TEST_CASE("Generated pairs: each word turned round, validation apart") {
  const Corpus corpus = open_corpus(config_of({}), {});
  REQUIRE(corpus.validation);
  const auto& samples = dynamic_cast<const PairSamples&>(*corpus.train);
  const WholeRow row(samples, 0, 0);
  const auto sentence = [&](const char* ids, const char* segments) {
    Ids first;
    for (std::size_t i = 0; i < 16; ++i)
      if (row.ids.at(segments)[i] == 1) first.push_back(row.ids.at(ids)[i]);
    CHECK(first.back() == 1);
    return corpus.vocabulary.decode(first);
  };
  CHECK(sentence("targets", "segments") ==
        generated_translation(sentence("source", "source_segments")));
  CHECK(generated_translation("abc de f") == "cba ed f");
  CHECK(corpus.baseline() > 1);
  CHECK(contains(message_of<UserError>([&] {
                   Wanted small;
                   small.vocab = 10;
                   open_corpus(config_of({}), small);
                 }),
                 "set model.vocab to that or more"));
}

TEST_CASE("Pairs files: both parts, what is missing is named") {
  const Scratch scratch;
  test::Writer writer(scratch.path("pairs.h5"));
  using Kind = io::ElementType::Kind;
  writer.root().set("vocab", std::int64_t{300});
  const auto add = [&](const std::string& part, const std::vector<std::uint16_t>& source,
                       const std::vector<std::int64_t>& source_ends) {
    writer.add("/" + part + "/source", source);
    writer.add("/" + part + "/source_ends", source_ends, Kind::signed_integer);
    writer.add<std::uint16_t>("/" + part + "/target", {9, 1, 8, 1});
    writer.add<std::int64_t>("/" + part + "/target_ends", {2, 4}, Kind::signed_integer);
  };
  add("train", {7, 6, 1, 5, 1}, {3, 5});
  add("validation", {3, 1, 4, 1}, {2, 4});
  const Corpus corpus = open_corpus(config_of({writer.write()}), {});
  CHECK(corpus.text ==
        "training 2 pairs with 4 target tokens in 1 rows; validation 2 pairs with 4 target tokens "
        "in 1 rows; vocabulary of 300");
  const WholeRow row(dynamic_cast<const PairSamples&>(*corpus.validation), 0, 0);
  CHECK(Ids(row.ids.at("source").begin(), row.ids.at("source").begin() + 5) == Ids{3, 1, 4, 1, 0});
  CHECK(Ids(row.ids.at("tokens").begin(), row.ids.at("tokens").begin() + 5) == Ids{0, 9, 0, 8, 0});

  DataConfig apart = config_of({writer.write()});
  apart.validation = {scratch.path("none.h5")};
  CHECK(contains(message_of<UserError>([&] { open_corpus(apart, {}); }),
                 "data.validation: there is no file or folder"));

  test::Writer bad(scratch.path("bad.h5"));
  bad.root().set("vocab", std::int64_t{300});
  bad.add<std::uint16_t>("/train/source", {1});
  CHECK(contains(message_of<UserError>([&] { open_corpus(config_of({bad.write()}), {}); }),
                 "bad.h5 holds no pairs: it needs /train/source, /train/source_ends"));
}

}  // namespace
}  // namespace tessera::data
