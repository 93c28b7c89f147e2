// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/stops.hpp"

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/scratch.hpp"
#include "tessera/comm/signals.hpp"

using namespace tessera;
using namespace tessera::train;

namespace {

double unix_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

TEST_CASE("The wall time leaves two saves and two of the slowest steps") {
  WallClock clock(seconds_since_start() + 100, 0);
  clock.set_save_seconds(30);
  clock.add_step_seconds(10);
  clock.add_step_seconds(1);
  CHECK_FALSE(clock.is_due());  // 100 left, 80 needed
  clock.add_step_seconds(25);
  CHECK(clock.is_due());
  CHECK_FALSE(WallClock(0, 0).has_limit());
}

TEST_CASE("The end of the Slurm job counts if it is first") {
  CHECK(WallClock(1e6, unix_time() + 50).remaining() < 51);
  CHECK(WallClock(seconds_since_start() + 20, unix_time() + 50).remaining() < 21);
  CHECK(WallClock(0, unix_time() - 5).is_due());
}

TEST_CASE("Votes summed over ranks give the strongest reason") {
  const double none[] = {0, 0, 0}, file[] = {1, 0, 0}, time[] = {1, 1, 0}, signal[] = {1, 0, 7};
  CHECK(StopWatch::decide(none) == Stop::none);
  CHECK(StopWatch::decide(file) == Stop::file);
  CHECK(StopWatch::decide(time) == Stop::walltime);
  CHECK(StopWatch::decide(signal) == Stop::signal);
}

TEST_CASE("Rank 0 judges stop file and time, every rank its own signals") {
  const test::Scratch scratch;
  const std::filesystem::path path = scratch.path("stop");
  const comm::StopSignals signals({SIGUSR1});
  comm::clear_pending_signal();
  const StopWatch root(true, WallClock(1e-9, 0), path.string());
  const StopWatch other(false, WallClock(1e-9, 0), path.string());
  CHECK(root.votes() == std::array<double, 3>{0, 1, 0});
  std::ofstream(path) << "\n";
  CHECK(root.votes() == std::array<double, 3>{1, 1, 0});
  CHECK(other.votes() == std::array<double, 3>{0, 0, 0});
  std::raise(SIGUSR1);
  CHECK(other.votes() == std::array<double, 3>{0, 0, 1});
  comm::clear_pending_signal();
  StopWatch told(false, WallClock(0, 0), "");
  CHECK(told.votes() == std::array<double, 3>{0, 0, 0});
  told.note_signal();
  CHECK(told.votes() == std::array<double, 3>{0, 0, 1});
  root.consume_file();
  CHECK_FALSE(std::filesystem::exists(path));
}
