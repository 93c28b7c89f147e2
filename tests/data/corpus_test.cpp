// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/data/corpus.hpp"

#include <cmath>

#include "data/paths.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/scratch.hpp"
#include "tessera/config/deck.hpp"
#include "tessera/data/entropy.hpp"
#include "tessera/data/loader.hpp"
#include "tessera/data/token_source.hpp"

namespace tessera::data {
namespace {

using test::contains;
using test::message_of;
using test::Scratch;

DataConfig configure(const std::string& keys, const std::string& folder) {
  DataConfig config;
  config::Schema schema;
  config.describe(schema);
  config::Deck::parse("[data]\n" + keys, folder + "/deck.ini").apply(schema);
  return config;
}

/// What a language model asks of data of this deck.
Wanted wanted(const DataConfig& config, std::int64_t vocab, std::uint64_t seed = 1) {
  const Shape row{{"length", config.length}};
  return {"transformer",
          {{"tokens", {row, DType::i32}},
           {"targets", {row, DType::i32}},
           {"weights", {row, DType::f32}}},
          vocab,
          seed};
}

std::string text_of(const Stream& stream) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(stream.tokens->size()));
  stream.tokens->read(0, stream.tokens->size(), ids.data());
  return {ids.begin(), ids.end()};
}

TEST_CASE("Paths of a deck are relative to it; a number behind a colon is a weight") {
  const Scratch scratch;
  scratch.write("decks/a.txt", std::string(400, 'a'));
  scratch.write("other/b.txt", std::string(200, 'b'));
  scratch.write("other/c:d.txt", std::string(100, 'c'));
  scratch.write("decks/v.txt", "validation text");
  const DataConfig config = configure(
      "path = a.txt, ../other/b.txt:2.5, ../other/c:d.txt\nvalidation = v.txt\nlength = 10\n",
      scratch.path("decks"));
  const TokenStreams corpus = open_token_streams(config, 0);
  REQUIRE(corpus.train.size() == 3);
  CHECK(text_of(corpus.train[0]) == std::string(400, 'a'));
  CHECK(text_of(corpus.train[1]) == std::string(200, 'b'));
  CHECK(text_of(corpus.train[2]) == std::string(100, 'c'));
  CHECK(corpus.train[0].weight == 1);
  CHECK(corpus.train[1].weight == 2.5);
  CHECK(corpus.train[2].weight == 1);
  REQUIRE(corpus.validation.size() == 1);
  CHECK(text_of(corpus.validation[0]) == "validation text");
  CHECK(corpus.vocabulary == Vocabulary::bytes());
  CHECK(open_corpus(config, wanted(config, 0)).text ==
        "3 streams, 700 training and 15 validation tokens, vocabulary of 256");
}

TEST_CASE("What is wrong with a validation path is said of its key") {
  const Scratch scratch;
  scratch.write("a.txt", std::string(400, 'a'));
  const auto refused = [&](const std::string& keys) {
    const DataConfig config = configure(keys + "length = 10\n", scratch.path(""));
    return message_of<UserError>([&] { open_corpus(config, wanted(config, 0)); });
  };
  CHECK(contains(refused("path = a.txt\nvalidation = none.txt\n"),
                 "data.validation: there is no file or folder"));
  CHECK(contains(refused("path = none.txt\nvalidation = a.txt\n"),
                 "data.path: there is no file or folder"));
}

TEST_CASE("Without a validation path the end of each path is cut off") {
  const Scratch scratch;
  scratch.write("a.txt", "abcdefghijklmnopqrst");
  scratch.write("b.txt", "0123456789");
  const TokenStreams corpus = open_token_streams(
      configure("path = a.txt:3, b.txt\nvalidation_fraction = 0.25\nlength = 4\n",
                scratch.path("")),
      0);
  REQUIRE(corpus.train.size() == 2);
  REQUIRE(corpus.validation.size() == 2);
  CHECK(text_of(corpus.train[0]) == "abcdefghijklmno");
  CHECK(text_of(corpus.validation[0]) == "pqrst");
  CHECK(text_of(corpus.train[1]) == "0123456");
  CHECK(text_of(corpus.validation[1]) == "789");
  CHECK(corpus.train[0].weight == 3);
  CHECK(corpus.validation[0].weight == 1);

  const DataConfig config =
      configure("path = a.txt\nvalidation_fraction = 0\nlength = 4\n", scratch.path(""));
  const TokenStreams all = open_token_streams(config, 0);
  CHECK(text_of(all.train[0]) == "abcdefghijklmnopqrst");
  CHECK(all.validation.empty());
  CHECK(open_corpus(config, wanted(config, 0)).validation == nullptr);
}

TEST_CASE("A text shorter than a sample is refused with the length that fits") {
  const Scratch scratch;
  scratch.write("a.txt", std::string(64, 'a'));
  const DataConfig config =
      configure("path = a.txt\nvalidation_fraction = 0\nlength = 64\n", scratch.path(""));
  const std::string message =
      message_of<UserError>([&] { open_corpus(config, wanted(config, 0)); });
  CHECK(contains(message, "holds 64 tokens"));
  CHECK(contains(message, "set data.length to 63 or less"));
  scratch.write("b.txt", "abc");
  CHECK(contains(message_of<UserError>([&] {
                   open_token_streams(configure("path = b.txt\nlength = 1\n", scratch.path("")), 0);
                 }),
                 "data.validation_fraction = 0"));
}

TEST_CASE("No path at all is Tessera's own text; tokens need a path") {
  const TokenStreams corpus = open_token_streams(configure("", ""), 256);
  REQUIRE(corpus.train.size() == 1);
  CHECK(corpus.train[0].tokens->size() > 18 * corpus.validation[0].tokens->size());
  CHECK(contains(
      message_of<UserError>([&] { open_token_streams(configure("source = tokens\n", ""), 256); }),
      "data.path is empty"));
}

TEST_CASE("Random tokens take the model's vocabulary unless told otherwise") {
  const auto vocab = [](const std::string& keys, std::int64_t model_vocab) {
    return open_token_streams(configure("source = random\n" + keys, ""), model_vocab)
        .vocabulary.size();
  };
  CHECK(vocab("", 50257) == 50257);
  CHECK(vocab("vocab = 100\n", 50257) == 100);
  CHECK(vocab("vocab = 100\n", 0) == 100);
  CHECK(contains(message_of<UserError>([&] { vocab("", 0); }), "data.vocab"));
  const std::string message = message_of<UserError>([&] { vocab("vocab = 300\n", 256); });
  CHECK(contains(message, "data.vocab is 300"));
  CHECK(contains(message, "256"));
}

TEST_CASE("Random tokens are a function of data.seed, or of the run's") {
  const auto first = [](const std::string& keys, std::uint64_t run_seed) {
    const DataConfig config = configure("source = random\nlength = 8\n" + keys, "");
    return open_corpus(config, wanted(config, 256, run_seed)).train->digest().to_string();
  };
  CHECK(first("", 1) == first("", 1));
  CHECK(first("", 1) != first("", 2));
  CHECK(first("seed = 3\n", 1) == first("seed = 3\n", 2));
}

TEST_CASE("Order: data.seed, or the run's") {
  const Scratch scratch;
  scratch.write("a.txt", std::string(5000, 'a'));
  const auto order = [&](const std::string& keys, std::uint64_t run_seed) {
    const DataConfig config = configure("path = a.txt\nlength = 10\n" + keys, scratch.path(""));
    const auto train = open_corpus(config, wanted(config, 0, run_seed)).train;
    const auto& samples = dynamic_cast<const TokenSamples&>(*train);
    std::vector<std::int64_t> numbers;
    for (std::int64_t i = 0; i < samples.per_epoch(); ++i)
      numbers.push_back(samples.at(0, i).number);
    return numbers;
  };
  CHECK(order("", 1) != order("", 2));
  CHECK(order("seed = 7\n", 1) == order("seed = 7\n", 2));
  CHECK(order("seed = 7\n", 1) == order("", 7));
}

TEST_CASE("A run goes on with the same data only, wherever it lies") {
  const Scratch scratch;
  scratch.write("a.txt", std::string(5000, 'a'));
  scratch.write("moved/b.txt", std::string(5000, 'a'));
  scratch.write("c.txt", std::string(4999, 'a') + "b");
  const auto identity = [&](const std::string& keys) {
    const DataConfig config = configure(keys, scratch.path(""));
    return identity_of(*open_corpus(config, wanted(config, 0)).train);
  };
  const DataIdentity saved = identity("path = a.txt\n");
  CHECK(saved.size == 4750);
  check_same_data(saved, identity("path = moved/b.txt\n"), "tokens");
  for (const char* keys :
       {"path = c.txt\n", "path = a.txt:2\n", "path = a.txt, a.txt\n",
        "path = a.txt\nlength = 64\n", "path = a.txt\nvalidation_fraction = 0.1\n"}) {
    const DataIdentity now = identity(keys);
    const std::string message =
        message_of<UserError>([&] { check_same_data(saved, now, "tokens"); });
    CHECK(contains(message, saved.digest));
    CHECK(contains(message, now.digest));
    CHECK(contains(message, "4,750"));
  }
}

TEST_CASE("Where data lies may change on resume, how it is taken may not") {
  DataConfig config;
  config::Schema schema;
  config.describe(schema);
  for (const char* key : {"data.path", "data.validation", "data.ahead"})
    CHECK(schema.find(key)->role == config::Role::free);
  for (const char* key : {"data.source", "data.batch", "data.length", "data.seed"})
    CHECK(schema.find(key)->role == config::Role::identity);
}

TEST_CASE("An input that the data do not give is named with what they give") {
  const Scratch scratch;
  scratch.write("a.txt", std::string(5000, 'a'));
  const DataConfig config = configure("path = a.txt\nlength = 10\n", scratch.path(""));
  Wanted images = wanted(config, 0);
  images.model = "painter";
  images.inputs = {{"image", {Shape{{"height", 3}}, DType::f32}}};
  const std::string message = message_of<UserError>([&] { open_corpus(config, images); });
  CHECK(contains(message, "model 'painter' needs the input 'image' [height:3] f32"));
  CHECK(contains(message, "data.source = text gives 'tokens' [length:10] i32"));
}

TEST_CASE("Unigram entropy: closed forms") {
  const auto ids = [](std::vector<std::int32_t> values) {
    return std::vector<Stream>{{from_ids(std::move(values), "ids")}};
  };
  // Two ids seen 3 and 1 times of 4, each count plus one: 4/6 and 2/6.
  const auto train = ids({0, 0, 0, 1});
  CHECK(unigram_nats(train, ids({0}), 2) == Approx(-std::log(4.0 / 6)));
  CHECK(unigram_nats(train, ids({1, 1, 0, 0}), 2) ==
        Approx(-(std::log(4.0 / 6) + std::log(2.0 / 6)) / 2));
  std::vector<std::int32_t> even;
  for (int i = 0; i < 200000; ++i) even.push_back(i % 50);
  CHECK(unigram_nats(ids(even), ids(even), 50) == Approx(std::log(50.0)));
  CHECK(unigram_nats(ids(even), ids(even), 50, 50) == Approx(std::log(50.0)));
  CHECK_THROWS_AS(unigram_nats(train, {}, 2), UserError);
}

}  // namespace
}  // namespace tessera::data
