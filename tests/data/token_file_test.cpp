// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/data/token_file.hpp"

#include <utility>

#include "data/writer.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/scratch.hpp"
#include "tessera/data/token_source.hpp"

namespace tessera::data {
namespace {

using test::contains;
using test::message_of;
using test::Scratch;
using test::Writer;
using Ids = std::vector<std::int32_t>;

Ids read(const Dataset& dataset) {
  Ids ids(static_cast<std::size_t>(dataset.size()));
  dataset.read(0, dataset.size(), ids.data());
  return ids;
}

TEST_CASE("A token file with both parts and pieces") {
  const Scratch scratch;
  Writer writer(scratch.path("ids.h5"));
  writer.root().set("vocab", std::int64_t{70000}).set("leading_blank", std::int64_t{1});
  writer.add<std::uint32_t>("/tokens/train", {1, 2, 69999, 0});
  writer.add<std::uint32_t>("/tokens/validation", {2, 1});
  std::vector<std::int64_t> ends(70000, 6);
  ends[0] = 0;
  ends[1] = 3;
  writer.add<std::uint8_t>("/pieces/bytes", {' ', 'a', 'b', ' ', 0xc3, 0xa9});
  writer.add("/pieces/ends", ends, io::ElementType::Kind::signed_integer);
  const TokenFile file = open_token_file(writer.write(), 0);
  CHECK(read(*file.train) == Ids{1, 2, 69999, 0});
  CHECK(read(*file.validation) == Ids{2, 1});
  CHECK(file.vocabulary.size() == 70000);
  CHECK(file.vocabulary.decode(Ids{1, 0, 2}) == "ab \xc3\xa9");
  CHECK(file.train->name() == scratch.path("ids.h5"));
}

TEST_CASE("A plain file: ids under /tokens, vocabulary of the model") {
  const Scratch scratch;
  Writer writer(scratch.path("plain.h5"));
  writer.add<std::int64_t>("/tokens", {5, 6, 7}, io::ElementType::Kind::signed_integer);
  const std::string path = writer.write();
  const TokenFile file = open_token_file(path, 8);
  CHECK(read(*file.train) == Ids{5, 6, 7});
  CHECK(file.validation == nullptr);
  CHECK(file.vocabulary == Vocabulary::numbers(8));
  CHECK(contains(message_of<UserError>([&] { open_token_file(path, 0); }), "set model.vocab"));
  const TokenFile narrow = open_token_file(path, 7);
  CHECK(contains(message_of<UserError>([&] { read(*narrow.train); }), "id 7 of token 2"));
}

TEST_CASE("Ids beyond the vocabulary are refused when the file is opened, if it says so") {
  const Scratch scratch;
  Writer writer(scratch.path("ids.h5"));
  writer.root().set("vocab", std::int64_t{60000});
  writer.add<std::uint16_t>("/tokens/train", {1, 50257}).set("max_id", std::int64_t{50257});
  const std::string path = writer.write();
  const std::string message = message_of<UserError>([&] { open_token_file(path, 50257); });
  CHECK(contains(message, path));
  CHECK(contains(message, "/tokens/train holds id 50257"));
  CHECK(contains(message, "set model.vocab to 50258 or more"));
  CHECK(read(*open_token_file(path, 50258).train) == Ids{1, 50257});
}

TEST_CASE("A negative id is outside the vocabulary") {
  const Scratch scratch;
  Writer writer(scratch.path("ids.h5"));
  writer.add<std::int32_t>("/tokens", {5, -1}, io::ElementType::Kind::signed_integer);
  const TokenFile file = open_token_file(writer.write(), 1000);
  CHECK_THROWS_AS(read(*file.train), UserError);
}

TEST_CASE("What is no token file is refused by name") {
  const Scratch scratch;
  const auto message = [&](Writer& writer) {
    const std::string path = writer.write();
    const std::string text = message_of<UserError>([&] { open_token_file(path, 100); });
    CHECK(contains(text, path));
    return text;
  };
  Writer other(scratch.path("other.h5"));
  other.add<std::uint8_t>("/images", {1});
  CHECK(contains(message(other), "neither a dataset /tokens/train nor /tokens, but /images"));

  Writer floats(scratch.path("floats.h5"));
  floats.add<float>("/tokens", {1.0F}, io::ElementType::Kind::floating);
  CHECK(contains(message(floats), "is not a list of little-endian integers"));

  Writer pieces(scratch.path("pieces.h5"));
  pieces.root().set("vocab", std::int64_t{3});
  pieces.add<std::uint8_t>("/tokens", {1});
  pieces.add<std::uint8_t>("/pieces/bytes", {'a', 'b'});
  pieces.add<std::int64_t>("/pieces/ends", {1, 2}, io::ElementType::Kind::signed_integer);
  CHECK(contains(message(pieces), "holds 2 pieces for a vocabulary of 3"));

  Writer huge(scratch.path("huge.h5"));
  huge.root().set("vocab", std::int64_t{1} << 40);
  huge.add<std::uint8_t>("/tokens", {1});
  CHECK(contains(message(huge), "states a vocabulary of"));

  const std::string text = scratch.write("text.h5", "no HDF5 at all");
  CHECK(contains(message_of<UserError>([&] { open_token_file(text, 0); }), text));
}

DataConfig config_of(std::vector<std::string> paths) {
  DataConfig config;
  config.source = "tokens";
  config.path = std::move(paths);
  config.length = 2;
  return config;
}

std::string write_shard(const std::string& path, std::vector<std::uint16_t> train,
                        std::vector<std::uint16_t> validation, std::int64_t vocab = 100) {
  Writer writer(path);
  writer.root().set("vocab", vocab);
  writer.add("/tokens/train", train);
  if (!validation.empty()) writer.add("/tokens/validation", validation);
  return writer.write();
}

TEST_CASE("Several token files: one stream for each entry, their own validation parts") {
  const Scratch scratch;
  std::filesystem::create_directories(scratch.path("shards"));
  write_shard(scratch.path("shards/b.h5"), {4, 5, 6}, {7, 8});
  write_shard(scratch.path("shards/a.h5"), {1, 2, 3}, {9});
  write_shard(scratch.path("other.h5"), {10, 11, 12}, {13});
  const TokenStreams corpus =
      open_token_streams(config_of({scratch.path("shards"), scratch.path("other.h5") + ":2"}), 0);
  REQUIRE(corpus.train.size() == 2);
  CHECK(read(*corpus.train[0].tokens) == Ids{1, 2, 3, 4, 5, 6});
  CHECK(read(*corpus.train[1].tokens) == Ids{10, 11, 12});
  CHECK(corpus.train[1].weight == 2);
  CHECK(read(*corpus.validation[0].tokens) == Ids{9, 7, 8});
  CHECK(read(*corpus.validation[1].tokens) == Ids{13});

  DataConfig elsewhere = config_of({scratch.path("shards")});
  elsewhere.validation = {scratch.path("other.h5")};
  CHECK(read(*open_token_streams(elsewhere, 0).validation.at(0).tokens) == Ids{13});
}

TEST_CASE("Token files that do not belong together are refused") {
  const Scratch scratch;
  std::filesystem::create_directories(scratch.path("shards"));
  write_shard(scratch.path("shards/a.h5"), {1, 2, 3}, {9});
  write_shard(scratch.path("shards/b.h5"), {4, 5, 6}, {});
  write_shard(scratch.path("other.h5"), {10, 11, 12}, {13}, 200);
  const auto message = [&](std::vector<std::string> paths) {
    return message_of<UserError>([&] { open_token_streams(config_of(std::move(paths)), 0); });
  };
  CHECK(contains(message({scratch.path("shards")}), "some hold /tokens/validation"));
  const std::string two = message({scratch.path("shards/a.h5"), scratch.path("other.h5")});
  CHECK(contains(two, "vocabulary of 100"));
  CHECK(contains(two, "other.h5 (200)"));
  std::filesystem::create_directories(scratch.path("empty"));
  CHECK(contains(message({scratch.path("empty")}), "holds no token file"));
}

}  // namespace
}  // namespace tessera::data
