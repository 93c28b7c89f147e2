// SPDX-License-Identifier: BSD-3-Clause
#include "support/catch.hpp"
#include "tessera/base/error.hpp"
#include "tessera/env/mujoco.hpp"

using namespace tessera;
using namespace tessera::env;

TEST_CASE("A Tessera without MuJoCo says so, and how to get it") {
  REQUIRE_FALSE(has_mujoco());
  CHECK_THROWS_WITH(make_mujoco({}),
                    Catch::Contains("built without MuJoCo") && Catch::Contains("MUJOCO_ROOT"));
  CHECK_THROWS_AS(make_mujoco({}), UserError);
}
