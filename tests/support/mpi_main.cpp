// SPDX-License-Identifier: BSD-3-Clause
#ifdef TESSERA_CATCH2_V3
#include <catch2/catch_session.hpp>
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#endif

#include <iostream>
#include <sstream>

#include "support/world.hpp"
#include "tessera/comm/abort.hpp"

namespace {
const tessera::comm::Environment* current = nullptr;
}

const tessera::comm::Environment& tessera::test::environment() {
  return *current;
}

/// Runs the tests on all ranks; rank 0 prints, the others only when they fail.
int main(int argc, char** argv) {
  tessera::comm::Environment environment(argc, argv);
  tessera::comm::install_terminate_handler();
  current = &environment;
  std::ostringstream quiet;
  std::streambuf* screen = std::cout.rdbuf();
  if (environment.rank() != 0) std::cout.rdbuf(quiet.rdbuf());
  const int failures = Catch::Session().run(argc, argv);
  std::cout.rdbuf(screen);
  if (failures != 0 && environment.rank() != 0)
    std::cerr << "rank " << environment.rank() << " failed:\n" << quiet.str() << std::flush;
  return environment.world().max({static_cast<double>(failures)})[0] == 0.0 ? 0 : 1;
}
