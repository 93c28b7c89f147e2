// SPDX-License-Identifier: BSD-3-Clause
// Saves that go wrong leave what was there, and say why.
#include <signal.h>
#include <sys/resource.h>

#include "io/checkpoint_support.hpp"
#include "support/catch.hpp"
#include "tessera/comm/simulated_collectives.hpp"
#include "tessera/io/checkpoint.hpp"
#include "tessera/io/inspect.hpp"

using namespace tessera;
using test::contains;
using test::message_of;

namespace {

/// No file may grow beyond this while the object lives: writing fails as on a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    ::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() { ::setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

struct Run {
  comm::SimulatedCollectives collectives{MeshShape::parse("a:2", 0)};
  test::Scratch folder;
  test::TestTiles tiles{test::test_tensors(collectives.mesh()), collectives, 1};
  std::string save(io::CheckpointContent content) {
    return io::save_checkpoint(folder.path(), content, collectives, 1);
  }
};

}  // namespace

TEST_CASE("a file that can't be written whole is removed, the old one stays") {
  Run run;
  const std::string old = run.save(run.tiles.content());
  io::CheckpointContent next = run.tiles.content();
  next.step = 2;
  // From too small for the first byte to just too small for the last one.
  const auto whole = static_cast<std::int64_t>(std::filesystem::file_size(old));
  for (std::int64_t limit : {std::int64_t{1}, std::int64_t{3000}, whole / 2, whole - 1}) {
    std::string message;
    {
      const FileSizeLimit small(static_cast<rlim_t>(limit));
      message = message_of<Error>([&] { run.save(next); });
    }
    INFO("limit " << limit << ": " << message);
    CHECK(contains(message, "step_00000002.h5"));
    CHECK_FALSE(std::filesystem::exists(run.folder.path("step_00000002.h5")));
    CHECK_FALSE(std::filesystem::exists(run.folder.path("step_00000002.h5.part")));
    CHECK(io::inspect_checkpoint(run.folder.path(), false).whole);
  }
  run.save(next);
  CHECK(io::Checkpoint(run.folder.path("latest")).step() == 2);
}

TEST_CASE("whatever goes wrong before writing leaves nothing behind") {
  Run run;
  run.save(run.tiles.content());
  const std::string file = run.folder.path("file");
  test::write_bytes(file, "x");
  const std::string message = message_of<Error>(
      [&] { io::save_checkpoint(file, run.tiles.content(), run.collectives, 1); });
  CHECK(contains(message, file));
  io::CheckpointContent bad = run.tiles.content();
  bad.step = 2;
  bad.tensors[3].tile = [](int) -> const void* { throw UserError("no tile"); };
  CHECK(message_of([&] { run.save(bad); }) == "no tile");
  io::CheckpointContent twice = run.tiles.content();
  twice.step = 2;
  twice.tensors.push_back(twice.tensors.front());
  CHECK(contains(message_of<Error>([&] { run.save(twice); }), "/variables/embedding"));
  CHECK_FALSE(std::filesystem::exists(run.folder.path("step_00000002.h5.part")));
}
