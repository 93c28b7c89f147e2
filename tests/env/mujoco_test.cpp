// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/env/mujoco.hpp"

#include <cmath>
#include <fstream>

#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/scratch.hpp"
#include "tessera/base/error.hpp"

using namespace tessera;
using namespace tessera::env;

namespace {

/// A bob of 1 kg on a rod of 0.5 m without mass, whose motor gives 1 N m at most.
const char* const kPendulum = R"(<mujoco>
  <option timestep="0.005" integrator="RK4"/>
  <worldbody>
    <body pos="0 0 1">
      <joint name="hinge" type="hinge" axis="0 1 0" damping="0.1"/>
      <geom type="sphere" size="0.001" pos="0 0 -0.5" mass="1"/>
      <site name="bob" pos="0 0 -0.5" zaxis="0 0 -1"/>
    </body>
  </worldbody>
  <actuator><motor joint="hinge" gear="1" ctrllimited="true" ctrlrange="-1 1"/></actuator>
  <sensor><framezaxis name="up" objtype="site" objname="bob"/></sensor>
</mujoco>)";

struct File {
  test::Scratch scratch;
  std::string path = scratch.path("model.xml");
  explicit File(const char* text) { std::ofstream(path) << text; }
};

MujocoTask task_of(const File& file) {
  MujocoTask task;
  task.model = file.path;
  task.reward = "up";
  task.frames = 4;
  return task;
}

}  // namespace

TEST_CASE("A task in MuJoCo goes as its equations say, and goes on from a checkpoint") {
  const File file(kPendulum);
  REQUIRE(has_mujoco());
  const auto make = make_mujoco(task_of(file));
  const auto environment = make(), other = make();
  const auto& spec = environment->spec();
  REQUIRE(spec.observation == 3);
  REQUIRE(spec.action == 1);
  CHECK(spec.step_seconds == Approx(0.02));
  std::vector<float> seen(3), again(3);
  environment->reset({1, 2, 3}, seen);
  CHECK(std::abs(seen[1]) < 0.011);
  // 0.25 theta'' = -4.905 sin(theta) - 0.1 theta' + u, theta from hanging.
  double theta = std::atan2(seen[1], seen[0]), speed = seen[2];
  std::vector<double> state(static_cast<std::size_t>(spec.state));
  for (int step = 0; step < 200; ++step) {
    const double action = std::sin(0.1 * step);
    for (int part = 0; part < 2000; ++part) {
      speed += 1e-5 * 4 * (action - 4.905 * std::sin(theta) - 0.1 * speed);
      theta += 1e-5 * speed;
    }
    const std::vector<float> acted{static_cast<float>(action)};
    const Outcome outcome = environment->step(acted, seen);
    REQUIRE(seen[0] == Approx(std::cos(theta)).margin(2e-3));
    REQUIRE(seen[2] == Approx(speed).margin(2e-2));
    CHECK(outcome.reward == Approx((1 - std::cos(theta)) / 2).margin(2e-3));
    if (step == 99) {
      environment->save(state);
      other->reset({7, 7, 7}, again);
      other->load(state);
    } else if (step > 99) {
      other->step(acted, again);
      CHECK(again == seen);
    }
  }
}

TEST_CASE("What is wrong with a task in MuJoCo is said with the key") {
  const File file(kPendulum);
  auto task = task_of(file);
  task.reward = "ups";
  CHECK_THROWS_WITH(make_mujoco(task)(),
                    Catch::Contains("env.reward = ups") && Catch::Contains("up"));
  const File broken("<mujoco><nonsense/></mujoco>");
  CHECK_THROWS_WITH(make_mujoco(task_of(broken)), Catch::Contains("env.model = "));
}
