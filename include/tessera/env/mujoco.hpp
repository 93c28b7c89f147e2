// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <string>

#include "tessera/env/environment.hpp"

namespace tessera::env {

/// A task in MuJoCo's physics: a model, and what of it is wanted.
struct MujocoTask {
  std::string model;    ///< file of a model in MuJoCo's XML
  std::string reward;   ///< a sensor whose last number s says how good a state is, -1 to 1
  double goal = 0.99;   ///< the sparse reward is 1 where s is larger
  double start = 0.01;  ///< hinges and slides begin within this of the model's (key) pose
  int frames = 1;       ///< steps of the physics in one step of the environment
  int horizon = 1000;   ///< steps of an episode
};

/// True if this Tessera was built with MuJoCo's C library (https://mujoco.org).
bool has_mujoco();

/// Observation: positions (of hinges without limits their cosine and sine), then velocities.
/// Actions: the actuators, from their smallest to their largest control. Reward (1 + s) / 2, cut to
/// [0, 1]. Saved with all that an integration step reads, so that it goes on bitwise. The model is
/// read once and shared. UserError: no MuJoCo, a file that it refuses (with its reason), no such
/// sensor, no actuator or one without a range.
MakeEnvironment make_mujoco(const MujocoTask& task);

}  // namespace tessera::env
