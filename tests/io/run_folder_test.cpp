// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/io/run_folder.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <thread>

#include "io/checkpoint_support.hpp"
#include "io/run_lock.hpp"
#include "support/catch.hpp"
#include "tessera/base/error.hpp"

using namespace tessera;
using io::LockOwner;
using io::RunFolder;
using test::contains;
using test::message_of;

namespace {

/// Runs `action` in another process and waits for it; its exit code.
int in_child(const std::function<int()>& action) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(action());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WEXITSTATUS(status);
}

}  // namespace

TEST_CASE("a fresh folder is made; one that holds a run is refused unless told otherwise") {
  const test::Scratch top;
  const std::string path = top.path("a/b");
  {
    RunFolder run(path, RunFolder::Use::fresh);
    CHECK(std::filesystem::is_directory(run.checkpoints()));
    run.store_deck("[run]\n");
    CHECK(test::file_bytes(path + "/deck.ini") == "[run]\n");
    CHECK(std::filesystem::exists(path + "/lock"));
  }
  CHECK_FALSE(std::filesystem::exists(path + "/lock"));
  CHECK_FALSE(io::holds_run(path));
  { RunFolder again(path, RunFolder::Use::fresh); }  // nothing but a deck in it

  test::write_bytes(path + "/metrics.jsonl", "{\"step\":1}\n");
  test::write_bytes(path + "/checkpoints/step_00000001.h5", "x");
  test::write_bytes(path + "/checkpoints/step_00000002.h5.part", "x");
  std::filesystem::create_directory(path + "/checkpoints/group_0");
  test::write_bytes(path + "/checkpoints/group_0/step_00000002.h5.part", "x");
  CHECK(io::holds_run(path));
  const std::string refusal = message_of([&] { RunFolder run(path, RunFolder::Use::fresh); });
  CHECK(contains(refusal, path));
  CHECK(contains(refusal, "train.resume=auto"));
  CHECK(contains(refusal, "run.overwrite=true"));
  CHECK_FALSE(std::filesystem::exists(path + "/lock"));
  {
    RunFolder run(path, RunFolder::Use::resume);
    CHECK(std::filesystem::exists(path + "/checkpoints/step_00000001.h5"));
    CHECK_FALSE(std::filesystem::exists(path + "/checkpoints/step_00000002.h5.part"));
    CHECK_FALSE(std::filesystem::exists(path + "/checkpoints/group_0/step_00000002.h5.part"));
  }
  { RunFolder run(path, RunFolder::Use::overwrite); }
  CHECK_FALSE(io::holds_run(path));

  test::write_bytes(top.path("file"), "x");
  CHECK(contains(message_of([&] { RunFolder run(top.path("file"), RunFolder::Use::fresh); }),
                 "run.dir"));
}

TEST_CASE("two jobs can't be in one folder, and a dead one's lock is taken over") {
  ::unsetenv("SLURM_JOB_ID");
  const test::Scratch top;
  const std::string path = top.path("run");
  {
    RunFolder run(path, RunFolder::Use::fresh);
    const int code = in_child([&] {
      const std::string refusal =
          message_of([&] { RunFolder other(path, RunFolder::Use::resume); });
      const bool named = refusal.find(concat("process ", ::getppid())) != std::string::npos;
      return named ? 7 : 8;
    });
    CHECK(code == 7);
    run.check_lock();  // still ours
  }
  CHECK(in_child([&] {
          new RunFolder(path, RunFolder::Use::resume);  // dies with the lock
          return 9;
        }) == 9);
  CHECK(std::filesystem::exists(path + "/lock"));
  RunFolder run(path, RunFolder::Use::resume);
  run.check_lock();
  test::write_bytes(path + "/lock", LockOwner{"elsewhere", 1, "2", ""}.to_text());
  CHECK(contains(message_of<Error>([&] { run.check_lock(); }), "elsewhere"));
}

TEST_CASE("a lock stays young while its job is busy with something long") {
  const test::Scratch top;
  const std::string lock = top.path("run/lock");
  const RunFolder run(top.path("run"), RunFolder::Use::fresh, std::chrono::milliseconds(5));
  const auto old = std::filesystem::file_time_type::clock::now() - std::chrono::hours(1);
  std::filesystem::last_write_time(lock, old);
  for (int i = 0; i < 2000 && std::filesystem::last_write_time(lock) == old; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  CHECK(std::filesystem::last_write_time(lock) > old + std::chrono::minutes(50));
  // Another job's lock is not ours to keep young.
  test::write_bytes(lock, LockOwner{"elsewhere", 1, "2", ""}.to_text());
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // a touch may be under way
  std::filesystem::last_write_time(lock, old);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  CHECK(std::filesystem::last_write_time(lock) == old);
}

TEST_CASE("whose lock may be taken over") {
  const LockOwner us = LockOwner::here();
  REQUIRE(us.pid == ::getpid());
  REQUIRE_FALSE(us.started.empty());
  const LockOwner far{"another-host", us.pid, us.started, "99"};
  LockOwner requeued = us;
  requeued.job = "99";
  LockOwner dead = us;
  dead.pid = 0x3fffff;  // above the kernel's largest
  LockOwner reused = us;
  reused.started = "1";
  CHECK_FALSE(may_take_over(us, us, 1));
  CHECK(may_take_over(us, us, 601));
  CHECK_FALSE(may_take_over(far, us, 1));
  CHECK(may_take_over(far, us, 601));
  CHECK(may_take_over(far, requeued, 1));
  CHECK_FALSE(may_take_over(us, requeued, 1));
  CHECK(may_take_over(dead, us, 1));
  CHECK(may_take_over(reused, us, 1));
  CHECK(may_take_over(LockOwner::parse(""), us, 1));
  CHECK(LockOwner::parse(us.to_text()).to_text() == us.to_text());
}
