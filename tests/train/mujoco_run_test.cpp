// SPDX-License-Identifier: BSD-3-Clause
#include <fstream>

#include "train/agent_deck.hpp"
#include "train/deck_run.hpp"

using namespace tessera;

TEST_CASE("An agent in MuJoCo learns asynchronously, too") {
  const test::DeckRun deck(test::kAgentDeck);
  std::ofstream(deck.path("model.xml")) << R"(<mujoco>
  <worldbody>
    <body>
      <joint name="hinge" type="hinge" axis="0 1 0"/>
      <geom type="sphere" size="0.01" pos="0 0 -0.5" mass="1"/>
      <site name="bob" pos="0 0 -0.5" zaxis="0 0 -1"/>
    </body>
  </worldbody>
  <actuator><motor joint="hinge" ctrllimited="true" ctrlrange="-1 1"/></actuator>
  <sensor><framezaxis name="up" objtype="site" objname="bob"/></sensor>
</mujoco>)";
  deck.train_async("run", 3, "batch:1,model:1",
                   {"--env.name=mujoco", "--env.model=" + deck.path("model.xml"), "--env.reward=up",
                    "--env.horizon=50", "--train.steps=4"});
  CHECK(deck.values("run", "critic/loss").size() == 4);
}
