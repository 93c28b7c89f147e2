// SPDX-License-Identifier: BSD-3-Clause
// A small program that process_test.py starts under mpiexec to see how jobs start and end.
// usage: process_probe MODE FILE

#include <unistd.h>

#include <chrono>
#include <fstream>
#include <iostream>
#include <thread>
#include <vector>

#include "tessera/base/error.hpp"
#include "tessera/comm/abort.hpp"
#include "tessera/comm/agree.hpp"
#include "tessera/comm/environment.hpp"
#include "tessera/comm/signals.hpp"
#include "tessera/comm/watchdog.hpp"

namespace {

using namespace tessera;

/// The last rank fails while the others wait for it.
void fail_on_last_rank(const comm::Environment& environment, const std::string& mode) {
  if (environment.rank() == environment.size() - 1) {
    if (mode == "abort") comm::abort_job("the probe gave up", 1);
    if (mode == "thread") std::thread([] { throw Error("thrown in a thread"); }).join();
    if (mode == "memory") {
      // More than any machine has; the compiler must not see that it is not used.
      std::vector<char> all(static_cast<std::size_t>(environment.size()) << 60);
      std::cout << all.data()[environment.rank()];
    }
    throw Error("the probe broke");
  }
  environment.world().barrier();
}

/// Hangs in a collective that the last rank never joins.
void hang(const comm::Environment& environment) {
  comm::Watchdog watchdog(0.5, environment.rank());
  const bool last = environment.rank() == environment.size() - 1;
  watchdog.at("micro", last ? "endless" : "all_reduce");
  if (last) std::this_thread::sleep_for(std::chrono::hours(1));
  environment.world().barrier();
}

/// Runs until all ranks have agreed that some rank was signalled.
int wait_for_signal(const comm::Environment& environment, const std::string& file) {
  const comm::StopSignals signals(comm::parse_signals("run.stop_signals", "USR1,TERM"));
  const auto pids = environment.world().gather_integer(getpid());
  if (environment.rank() == 0) {
    std::ofstream out(file + ".part");
    for (auto pid : pids) out << pid << "\n";
    out.close();
    std::rename((file + ".part").c_str(), file.c_str());
  }
  int step = 0;
  double signal = 0;
  while (signal == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    signal = environment.world().max({static_cast<double>(comm::pending_signal())})[0];
    ++step;
  }
  // One write: the launcher mixes what ranks write at the same time.
  std::cout << concat("stopped by ", comm::signal_name(static_cast<int>(signal)), " at step ", step,
                      "\n")
            << std::flush;
  return 85;
}

int run(const comm::Environment& environment, const std::string& mode, const std::string& file) {
  if (mode == "signal") return wait_for_signal(environment, file);
  if (mode == "hang") hang(environment);
  if (mode == "cores") {
    const auto report = environment.report_cores(1);
    if (environment.rank() != 0) return 0;
    for (const auto& line : report.lines) std::cout << line << "\n";
    for (const auto& line : report.warnings) std::cout << "warning: " << line << "\n";
    return 0;
  }
  if (mode != "start") fail_on_last_rank(environment, mode);
  if (environment.rank() == 0) std::ofstream(file) << environment.size() << "\n";
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "start", file = argc > 2 ? argv[2] : "";
  comm::install_terminate_handler();
  try {
    const comm::Environment environment(argc, argv);
    try {
      return run(environment, mode, file);
    } catch (const std::exception&) {
      comm::abort_job(comm::describe_current_exception());
    }
  } catch (const UserError& error) {
    std::cerr << error.what() << "\n";
    return 2;
  }
}
