// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/io/hdf5.hpp"

#include <sys/stat.h>

#include "io/checkpoint_support.hpp"
#include "support/catch.hpp"
#include "tessera/base/error.hpp"

using namespace tessera;
using namespace tessera::io;
using Kind = ElementType::Kind;

namespace {

DatasetInfo dataset(std::string path, std::vector<std::int64_t> shape, ElementType type) {
  DatasetInfo info;
  info.path = std::move(path);
  info.shape = std::move(shape);
  info.type = type;
  return info;
}

std::string message_of_reading(const std::string& file) {
  return test::message_of([&] { read_index(file); });
}

}  // namespace

TEST_CASE("what is written into an index is read back") {
  const test::Scratch folder;
  const std::string file = folder.path("a.h5");
  FileIndex written;
  written.datasets = {dataset("/a/b/matrix", {3, 4}, {Kind::floating, 4}),
                      dataset("/a/scalar", {}, {Kind::floating, 8}),
                      dataset("/empty", {0, 5}, {Kind::unsigned_integer, 2}),
                      dataset("/ids", {70000}, {Kind::signed_integer, 4})};
  written.datasets[0].attributes.set("dims", std::string("rows,columns"));
  written.groups["/meta"]
      .set("empty text", std::string())
      .set("integer", std::int64_t{-9007199254740993})
      .set("integers", std::vector<std::int64_t>{1, -2, 3})
      .set("long text", std::string(300'000, 'x'))
      .set("real", 0.1)
      .set("text", std::string("d\xc3\xa9j\xc3\xa0 vu\nline"));
  written.groups["/"].set("root", std::int64_t{1});
  write_index(file, written);

  const FileIndex read = read_index(file);
  CHECK(read.group("/meta") == written.group("/meta"));
  CHECK(read.group("/") == written.group("/"));
  CHECK(read.group("/nowhere").entries().empty());
  REQUIRE(read.datasets.size() == written.datasets.size());
  for (const DatasetInfo& info : written.datasets) {
    const DatasetInfo* same = read.find(info.path);
    REQUIRE(same != nullptr);
    CHECK(same->shape == info.shape);
    CHECK(same->type == info.type);
    CHECK(same->offset == info.offset);
    CHECK(same->attributes == info.attributes);
  }
  CHECK(read.find("/empty")->offset == -1);
  CHECK(read.find("/empty")->obstacle == "empty");
  // Large datasets start on a page, and their space is there though nothing was written.
  CHECK(read.find("/ids")->offset % 4096 == 0);
  CHECK(static_cast<std::int64_t>(std::filesystem::file_size(file)) >=
        read.find("/ids")->offset + 280'000);
}

TEST_CASE("files are the same whenever they are written") {
  const test::Scratch folder;
  FileIndex index;
  index.datasets = {dataset("/a/b", {3}, {Kind::floating, 4})};
  write_index(folder.path("one.h5"), index);
  write_index(folder.path("two.h5"), index);
  const bool same =
      test::file_bytes(folder.path("one.h5")) == test::file_bytes(folder.path("two.h5"));
  CHECK(same);
}

TEST_CASE("what can't be read is named with its file and reason") {
  const test::Scratch folder;
  CHECK(message_of_reading(folder.path("none.h5")) ==
        folder.path("none.h5") + ": there is no such file");
  test::write_bytes(folder.path("text.h5"), "no HDF5 here\n");
  CHECK(test::contains(message_of_reading(folder.path("text.h5")), "text.h5"));
  CHECK(test::contains(message_of_reading(folder.path("text.h5")), "signature"));

  CHECK(message_of_reading(folder.path(".")) == folder.path(".") + ": it is a folder, not a file");
  CHECK(test::contains(message_of_reading(folder.path(std::string(300, 'x'))), "too long"));
  REQUIRE(::mkfifo((folder.path("pipe.h5")).c_str(), 0600) == 0);
  CHECK(test::contains(message_of_reading(folder.path("pipe.h5")), "it is a pipe"));

  FileIndex index;
  index.datasets = {dataset("/a", {10000}, {Kind::floating, 4})};
  write_index(folder.path("whole.h5"), index);
  const std::string bytes = test::file_bytes(folder.path("whole.h5"));
  test::write_bytes(folder.path("cut.h5"), bytes.substr(0, bytes.size() - 1));
  CHECK(test::contains(message_of_reading(folder.path("cut.h5")), "cut.h5"));
  CHECK(test::contains(message_of_reading(folder.path("cut.h5")), "truncated"));

  CHECK_THROWS_AS(write_index(folder.path("no/such/folder.h5"), index), Error);
}
