// SPDX-License-Identifier: BSD-3-Clause
// The largest of all sources is Catch2 2.13 itself: compiled here alone.
#ifdef TESSERA_CATCH2_V3
#include <catch2/catch_session.hpp>
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#endif

#include "support/run_catch.hpp"

int tessera::test::run_catch(int argc, char** argv) {
  return Catch::Session().run(argc, argv);
}
