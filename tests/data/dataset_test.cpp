// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/data/dataset.hpp"

#include <fcntl.h>

#include <numeric>

#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/scratch.hpp"

namespace tessera::data {
namespace {

using test::contains;
using test::message_of;
using test::Scratch;

std::vector<std::int32_t> read(const Dataset& dataset, std::int64_t begin, std::int64_t count) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(count));
  dataset.read(begin, count, ids.data());
  return ids;
}

template <class Id>
std::string bytes_of(const std::vector<Id>& ids) {
  return {reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(Id)};
}

TEST_CASE("Parts of more files than are kept open read as one") {
  const Scratch scratch;
  std::vector<FileSet::Part> parts;
  std::string whole;
  for (int i = 0; i < 200; ++i) {
    const std::string text = "<file " + std::to_string(i) + ">";
    const auto bytes = static_cast<std::int64_t>(text.size());
    parts.push_back({scratch.write(std::to_string(i), "skip" + text + "rest"), 4, bytes});
    whole += text;
  }
  parts.push_back({"/nowhere", 0, 0});  // an empty part is never opened
  const FileSet files(parts);
  REQUIRE(files.bytes() == static_cast<std::int64_t>(whole.size()));
  for (const std::int64_t begin : {0, 1, 8, 700, 1234})
    for (const std::int64_t count : {0, 1, 9, 300}) {
      std::string text(static_cast<std::size_t>(count), '?');
      files.read(begin, count, text.data());
      CHECK(text == whole.substr(static_cast<std::size_t>(begin), static_cast<std::size_t>(count)));
    }
  CHECK(files.place_of(8).path == scratch.path("1"));
  CHECK(files.place_of(9).offset == 5);
}

TEST_CASE("Many files that are not small are read in place too") {
  const Scratch scratch;
  std::vector<FileSet::Part> parts;
  const std::int64_t each = std::int64_t{1} << 30;
  for (int i = 0; i < 100; ++i) {
    const std::string path = scratch.write(std::to_string(i), std::to_string(i) + ".");
    std::filesystem::resize_file(path, static_cast<std::uintmax_t>(each));  // a hole behind it
    parts.push_back({path, 0, each});
  }
  const FileSet files(parts);
  for (const int i : {0, 99, 1, 98, 50, 0}) {
    std::string text(3, '?');
    files.read(i * each, 3, text.data());
    CHECK(text.substr(0, text.find('.')) == std::to_string(i));
  }
}

TEST_CASE("Ids of each width, up to the largest") {
  const Scratch scratch;
  const auto check = [&](auto largest, int width) {
    using Id = decltype(largest);
    const std::vector<Id> ids = {0, 1, static_cast<Id>(largest - 1), 7, largest};
    const std::string path = scratch.write("ids", bytes_of(ids));
    const DatasetPtr tokens =
        file_tokens(FileSet({{path, 0, 5 * width}}), width, std::int64_t{1} << 31, "ids");
    REQUIRE(tokens->size() == 5);
    CHECK(read(*tokens, 0, 5) == std::vector<std::int32_t>(ids.begin(), ids.end()));
    CHECK(read(*tokens, 2, 2) == std::vector<std::int32_t>{static_cast<std::int32_t>(ids[2]), 7});
  };
  check(std::uint8_t{255}, 1);
  check(std::uint16_t{65535}, 2);
  check(std::uint32_t{2147483647}, 4);
  check(std::uint64_t{2147483647}, 8);
}

TEST_CASE("An id outside the vocabulary is an error with file and offset") {
  const Scratch scratch;
  const std::vector<std::uint16_t> ids = {1, 2, 3, 50257, 4};
  const std::string path = scratch.write("ids.bin", "head" + bytes_of(ids));
  const DatasetPtr tokens = file_tokens(FileSet({{path, 4, 10}}), 2, 50257, "ids");
  CHECK(read(*tokens, 0, 3) == std::vector<std::int32_t>{1, 2, 3});
  const std::string message = message_of<UserError>([&] { read(*tokens, 1, 4); });
  CHECK(contains(message, path));
  CHECK(contains(message, "id 50257 of token 3 (file offset 10)"));
  CHECK(contains(message, "vocabulary of 50257"));
  CHECK(contains(message, "model.vocab"));
}

TEST_CASE("A file that became shorter is an error, not a crash") {
  const Scratch scratch;
  const std::string path = scratch.write("text", std::string(1000, 'x'));
  const DatasetPtr tokens = file_tokens(FileSet({{path, 0, 1000}}), 1, 256, "text");
  std::filesystem::resize_file(path, 600);
  CHECK(read(*tokens, 500, 100).size() == 100);
  const std::string message = message_of<Error>([&] { read(*tokens, 500, 200); });
  CHECK(contains(message, path + " ends at byte 600"));
}

std::int64_t resident_bytes() {
  std::ifstream in("/proc/self/statm");
  std::int64_t total = 0, resident = 0;
  in >> total >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

TEST_CASE("A file larger than memory is read in place") {
  const Scratch scratch;
  const std::string path = scratch.write("large", "head");
  const std::int64_t bytes = (std::int64_t{1} << 38) + 8;  // 256 GiB, nearly all of it a hole
  std::filesystem::resize_file(path, static_cast<std::uintmax_t>(bytes));
  {
    std::fstream out(path, std::ios::in | std::ios::out | std::ios::binary);
    out.seekp(bytes - 4);
    out << "tail";
  }
  const std::int64_t before = resident_bytes();
  const DatasetPtr tokens = file_tokens(FileSet({{path, 0, bytes}}), 1, 256, "large");
  CHECK(tokens->size() == bytes);
  CHECK(read(*tokens, bytes - 5, 5) == std::vector<std::int32_t>{0, 't', 'a', 'i', 'l'});
  const Digest digest = tokens->digest();
  CHECK(resident_bytes() - before < (std::int64_t{64} << 20));
  CHECK(digest == tokens->digest());

  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary) << "H";
  CHECK(digest != tokens->digest());
}

TEST_CASE("Slices and concatenations") {
  std::vector<std::int32_t> ids(100);
  std::iota(ids.begin(), ids.end(), 0);
  const DatasetPtr whole = from_ids(ids, "ids");
  const DatasetPtr middle = slice(whole, {10, 40});
  CHECK(middle->size() == 30);
  CHECK(read(*middle, 5, 3) == std::vector<std::int32_t>{15, 16, 17});
  CHECK_THROWS_AS(read(*middle, 29, 2), Error);
  CHECK_THROWS_AS(slice(whole, {90, 101}), Error);

  const DatasetPtr joined =
      concatenate({slice(whole, {0, 2}), slice(whole, {5, 5}), slice(whole, {97, 100})}, "joined");
  CHECK(joined->size() == 5);
  CHECK(read(*joined, 0, 5) == std::vector<std::int32_t>{0, 1, 97, 98, 99});
  CHECK(read(*joined, 1, 2) == std::vector<std::int32_t>{1, 97});
}

TEST_CASE("Random tokens are a function of seed and index, below the vocabulary, evenly") {
  const DatasetPtr tokens = random_tokens(std::int64_t{1} << 40, 1000, 4);
  const auto once = read(*tokens, 1000, 50000);
  CHECK(read(*tokens, 1017, 100) ==
        std::vector<std::int32_t>(once.begin() + 17, once.begin() + 117));
  CHECK(read(*random_tokens(1 << 20, 1000, 5), 1000, 50000) != once);
  std::vector<int> tens(10);
  for (const std::int32_t id : once) {
    REQUIRE(id >= 0);
    REQUIRE(id < 1000);
    ++tens[static_cast<std::size_t>(id / 100)];
  }
  for (const int count : tens) CHECK(std::abs(count - 5000) < 350);  // 5 standard deviations
  CHECK(read(*tokens, (std::int64_t{1} << 40) - 3, 3).size() == 3);
}

TEST_CASE("Digests tell contents apart, and not names or cuts") {
  const Scratch scratch;
  const std::string text(100001, 'a');
  const auto digest = [&](std::string content) {
    const auto bytes = static_cast<std::int64_t>(content.size());
    const std::string path = scratch.write("some", content);
    return file_tokens(FileSet({{path, 0, bytes}}), 1, 256, "x")->digest();
  };
  const Digest plain = digest(text);
  CHECK(plain == digest(text));
  for (const std::size_t at : {std::size_t{0}, std::size_t{5000}, text.size() - 1}) {
    std::string changed = text;
    changed[at] = 'b';
    CHECK(plain != digest(changed));
  }
  CHECK(plain != digest(text + "a"));
  CHECK(plain != digest(text.substr(1)));
  std::string swapped = text;
  std::swap(swapped[8] = 'b', swapped[16]);
  std::string other = text;
  other[8] = 'b';
  CHECK(digest(swapped) != digest(other));

  Digest whole, pieces;
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  whole.add_bytes(0, bytes, 1001);
  pieces.add_bytes(512, bytes + 512, 489);
  pieces.add_bytes(0, bytes, 512);
  CHECK(whole == pieces);
  CHECK(plain.to_string().size() == 32);
}

}  // namespace
}  // namespace tessera::data
