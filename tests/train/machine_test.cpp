// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/machine.hpp"

#include <filesystem>
#include <fstream>

#include "support/catch.hpp"
#include "tessera/base/error.hpp"

using namespace tessera;
using namespace tessera::train;

TEST_CASE("A step's time is its operations, bytes and latencies one after the other") {
  plan::Report report;
  report.flops_per_step = 6e9;
  report.collectives.push_back({"micro", program::CollectiveKind::all_reduce, {0}, 3, 500, 1000});
  report.collectives.push_back({"update", program::CollectiveKind::all_gather, {0}, 1, 1500, 3000});
  Machine machine;
  machine.flops = 2e9;
  machine.bandwidth = 1000;
  machine.latency = 0.25;
  CHECK(machine.step_seconds(report) == Approx(3 + 2 + 1));
}

TEST_CASE("A machine file is a deck of its own") {
  const auto file = std::filesystem::temp_directory_path() / "tessera_machine_test.ini";
  std::ofstream(file) << "[machine]\nflops = 1e12\nbandwidth = 2e9\nlatency = 1e-5\n";
  const Machine machine = Machine::read(file.string());
  CHECK(machine.flops == 1e12);
  CHECK(machine.bandwidth == 2e9);
  CHECK(machine.latency == 1e-5);
  std::ofstream(file) << "[machine]\nflops = 1e12\n";
  CHECK_THROWS_AS(Machine::read(file.string()), UserError);
  std::filesystem::remove(file);
}
