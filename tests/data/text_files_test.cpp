// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/data/text_files.hpp"

#include <sys/stat.h>

#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/scratch.hpp"

namespace tessera::data {
namespace {

using test::contains;
using test::message_of;
using test::Scratch;

std::string text_of(const Dataset& dataset) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(dataset.size()));
  dataset.read(0, dataset.size(), ids.data());
  return {ids.begin(), ids.end()};
}

TEST_CASE("A folder gives its text files, recursively, in the order of their names") {
  const Scratch scratch;
  scratch.write("text/b.txt", "B");
  scratch.write("text/a/z.md", "Z");
  scratch.write("text/a.txt", "A");
  scratch.write("text/c/deep/er/x", "X");
  scratch.write("text/empty.txt", "");
  scratch.write("text/picture.png", std::string("PN\0G", 4));
  scratch.write("text/.hidden", "no");
  scratch.write("text/.git/config", "no");
  scratch.write("text/build/out.txt", "no");
  std::filesystem::create_symlink(scratch.path("text/b.txt"), scratch.path("text/link.txt"));
  std::filesystem::create_symlink(scratch.path("text/gone"), scratch.path("text/nowhere.txt"));
  std::filesystem::create_symlink("self.txt", scratch.path("text/self.txt"));
  const std::string folder = scratch.path("text");
  CHECK(find_text_files(folder) ==
        std::vector<std::string>{folder + "/a/z.md", folder + "/a.txt", folder + "/b.txt",
                                 folder + "/c/deep/er/x", folder + "/link.txt"});
  const DatasetPtr tokens = text_files(folder, 256);
  CHECK(text_of(*tokens) == "ZABXB");
  CHECK(tokens->name() == folder);
}

TEST_CASE("Files and patterns; a file named by the user may hold zero bytes") {
  const Scratch scratch;
  scratch.write("one.txt", std::string("a\0b\xff", 4));
  scratch.write("two.txt", "2");
  scratch.write("more/three.txt", "3");
  const DatasetPtr one = text_files(scratch.path("one.txt"), 256);
  std::vector<std::int32_t> ids(4);
  one->read(0, 4, ids.data());
  CHECK(ids == std::vector<std::int32_t>{'a', 0, 'b', 255});
  CHECK(text_of(*text_files(scratch.path("t*.txt"), 256)) == "2");
  CHECK(text_of(*text_files(scratch.path("[mt]*"), 256)) == "32");
  scratch.write("odd[1].txt", "odd");
  CHECK(text_of(*text_files(scratch.path("odd[1].txt"), 256)) == "odd");
}

TEST_CASE("What is not there, or no text, is refused with the nearest fix") {
  const Scratch scratch;
  scratch.write("shakespeare.txt", "x");
  scratch.write("none/.hidden", "x");
  scratch.write("empty.txt", "");
  scratch.write("ids.h5", "\x89HDF\r\n\x1a\n and so on");
  const auto message = [&](const std::string& name) {
    return message_of<UserError>([&] { text_files(scratch.path(name), 256); });
  };
  CHECK(contains(message("shakespear.txt"), "did you mean 'shakespeare.txt'?"));
  CHECK(contains(message("nowhere/at/all.txt"), "there is no file or folder"));
  CHECK(contains(message("*.text"), "no file fits the pattern"));
  CHECK(contains(message(std::string(300, 'x')), "there is no file or folder"));
  CHECK(contains(message("none"), "holds no text"));
  CHECK(contains(message("empty.txt"), "is empty"));
  REQUIRE(::mkfifo(scratch.path("pipe.txt").c_str(), 0600) == 0);
  CHECK(contains(message("pipe.txt"), "no regular file"));
  CHECK(contains(message("ids.h5"), "data.source = tokens"));
  std::filesystem::permissions(scratch.write("secret.txt", "x"), std::filesystem::perms::none);
  if (::geteuid() != 0) CHECK(contains(message("secret.txt"), "cannot open"));
}

TEST_CASE("A byte outside a small vocabulary is an error with file and offset") {
  const Scratch scratch;
  const std::string path = scratch.write("latin.txt", "ab\xe9");
  const DatasetPtr tokens = text_files(path, 128);
  const std::string message = message_of<UserError>([&] { text_of(*tokens); });
  CHECK(contains(message, path));
  CHECK(contains(message, "file offset 2"));
}

TEST_CASE("Tessera's own text: sources and documents, mixed, no binaries") {
  const DatasetPtr own = own_text(256);
  const std::string text = text_of(*own);
  CHECK(text.size() > 100000);
  CHECK(contains(text, "The one distribution of Tessera: part i of p of [0, n)"));
  CHECK_FALSE(contains(text, std::string(1, '\0')));
  CHECK(own->digest() == own_text(256)->digest());
  // Headers and sources come mixed: both stand in the first and in the last third.
  const std::string head = text.substr(0, text.size() / 3);
  const std::string tail = text.substr(text.size() - text.size() / 3);
  for (const std::string& part : {head, tail}) {
    CHECK(contains(part, "#pragma once"));
    CHECK(contains(part, "}  // namespace\n"));
  }
}

}  // namespace
}  // namespace tessera::data
