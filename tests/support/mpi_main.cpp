// SPDX-License-Identifier: BSD-3-Clause
#include <mpi.h>

#include <chrono>
#include <iostream>
#include <sstream>
#include <thread>

#include "support/run_catch.hpp"
#include "support/world.hpp"
#include "tessera/comm/abort.hpp"

namespace {

constexpr int kPatienceSeconds = 10;

const tessera::comm::Environment* current = nullptr;

/// Waits for all ranks to end their tests. A rank that failed may have left a test in which the
/// others wait for it: then it ends the job.
void meet(MPI_Comm ends, bool failed) {
  MPI_Request request;
  MPI_Ibarrier(ends, &request);
  const auto begin = std::chrono::steady_clock::now();
  for (int done = 0; !done;) {
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (failed && std::chrono::steady_clock::now() - begin > std::chrono::seconds(kPatienceSeconds))
      tessera::comm::abort_job("has failed, and other ranks wait for it");
  }
}

}  // namespace

const tessera::comm::Environment& tessera::test::environment() {
  return *current;
}

/// Runs the tests on all ranks; rank 0 prints, the others only when they fail.
int main(int argc, char** argv) {
  tessera::comm::Environment environment(argc, argv);
  tessera::comm::install_terminate_handler();
  current = &environment;
  MPI_Comm ends;
  MPI_Comm_dup(MPI_COMM_WORLD, &ends);
  std::ostringstream quiet;
  std::streambuf* screen = std::cout.rdbuf();
  if (environment.rank() != 0) std::cout.rdbuf(quiet.rdbuf());
  const int failures = tessera::test::run_catch(argc, argv);
  std::cout.rdbuf(screen);
  if (failures != 0 && environment.rank() != 0)
    std::cerr << "rank " << environment.rank() << " failed:\n" << quiet.str() << std::flush;
  meet(ends, failures != 0);
  MPI_Comm_free(&ends);
  return environment.world().max({static_cast<double>(failures)})[0] == 0.0 ? 0 : 1;
}
