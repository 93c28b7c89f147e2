// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/env/mujoco.hpp"

#include "tessera/base/error.hpp"

#ifdef TESSERA_HAVE_MUJOCO
#include <mujoco/mujoco.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "tessera/base/text.hpp"
#endif

namespace tessera::env {

#ifndef TESSERA_HAVE_MUJOCO

bool has_mujoco() {
  return false;
}

MakeEnvironment make_mujoco(const MujocoTask&) {
  throw UserError(
      "env.name = mujoco: this Tessera was built without MuJoCo; configure with MUJOCO_ROOT at the "
      "folder that holds its include/ and libmujoco");
}

#else

namespace {

using Model = std::shared_ptr<const mjModel>;
using Data = std::unique_ptr<mjData, void (*)(mjData*)>;

Model read_model(const std::string& file) {
  std::array<char, 1000> reason{};
  mjModel* model = mj_loadXML(file.c_str(), nullptr, reason.data(), int(reason.size()));
  check_user(model != nullptr, "env.model = ", file, ": ", reason.data());
  return {model, [](const mjModel* read) { mj_deleteModel(const_cast<mjModel*>(read)); }};
}

bool is_scalar(const mjModel& model, int joint) {
  return model.jnt_type[joint] == mjJNT_HINGE || model.jnt_type[joint] == mjJNT_SLIDE;
}

/// Turns round without end: its angle alone would jump.
bool turns(const mjModel& model, int joint) {
  return model.jnt_type[joint] == mjJNT_HINGE && !model.jnt_limited[joint];
}

/// Where a sensor's last number stands among all sensors' data.
int sensor_place(const mjModel& model, const std::string& name) {
  const int sensor = mj_name2id(&model, mjOBJ_SENSOR, name.c_str());
  std::vector<std::string> names;
  for (int i = 0; i < int(model.nsensor); ++i)
    if (const char* known = mj_id2name(&model, mjOBJ_SENSOR, i)) names.emplace_back(known);
  check_user(sensor >= 0, "env.reward = ", name, ": the model has no such sensor",
             did_you_mean(name, names), "; its sensors are ", join(names, ", "));
  return model.sensor_adr[sensor] + model.sensor_dim[sensor] - 1;
}

EnvironmentSpec spec_of(const mjModel& model, const MujocoTask& task) {
  check_user(model.nu > 0, "env.model = ", task.model, " has no actuators to act by");
  for (int i = 0; i < int(model.nu); ++i)
    check_user(model.actuator_ctrllimited[i], "env.model = ", task.model, ": actuator ", i,
               " has no ctrlrange");
  EnvironmentSpec spec;
  spec.name = "mujoco";
  spec.observation = int(model.nq) + int(model.nv);
  for (int joint = 0; joint < int(model.njnt); ++joint) spec.observation += turns(model, joint);
  spec.action = int(model.nu);
  spec.horizon = task.horizon;
  spec.step_seconds = task.frames * model.opt.timestep;
  spec.state = 1 + int(mj_stateSize(&model, mjSTATE_INTEGRATION));
  return spec;
}

class Mujoco final : public Environment {
 public:
  Mujoco(Model model, const MujocoTask& task)
      : task_(task),
        model_(std::move(model)),
        data_(mj_makeData(model_.get()), mj_deleteData),
        spec_(spec_of(*model_, task)),
        reward_(sensor_place(*model_, task.reward)) {}

  const EnvironmentSpec& spec() const override { return spec_; }

  void reset(const EpisodeKey& key, std::span<float> observation) override {
    if (model_->nkey > 0)
      mj_resetDataKeyframe(model_.get(), data_.get(), 0);
    else
      mj_resetData(model_.get(), data_.get());
    for (int joint = 0; joint < int(model_->njnt); ++joint)
      if (is_scalar(*model_, joint))
        data_->qpos[model_->jnt_qposadr[joint]] += task_.start * (2 * start_draw(key, joint) - 1);
    mj_forward(model_.get(), data_.get());
    steps_ = 0;
    observe(observation);
  }

  Outcome step(std::span<const float> action, std::span<float> observation) override {
    TESSERA_CHECK(steps_ < spec_.horizon, "a step after the end of an episode");
    for (int i = 0; i < spec_.action; ++i) {
      const mjtNum* range = model_->actuator_ctrlrange + 2 * i;
      const double share =
          (std::clamp(static_cast<double>(action[static_cast<std::size_t>(i)]), -1.0, 1.0) + 1) / 2;
      data_->ctrl[i] = range[0] + share * (range[1] - range[0]);
    }
    for (int frame = 0; frame < task_.frames; ++frame) mj_step(model_.get(), data_.get());
    mj_forward(model_.get(), data_.get());  // sensors of the state that was reached
    ++steps_;
    observe(observation);
    const double good = data_->sensordata[reward_];
    Outcome outcome;
    outcome.reward = std::clamp((1 + good) / 2, 0.0, 1.0);
    outcome.sparse_reward = good > task_.goal ? 1 : 0;
    outcome.last = steps_ == spec_.horizon;
    return outcome;
  }

  void save(std::span<double> state) const override {
    state[0] = steps_;
    mj_getState(model_.get(), data_.get(), state.data() + 1, mjSTATE_INTEGRATION);
  }
  void load(std::span<const double> state) override {
    steps_ = static_cast<int>(state[0]);
    mj_setState(model_.get(), data_.get(), state.data() + 1, mjSTATE_INTEGRATION);
  }

 private:
  void observe(std::span<float> observation) const {
    auto to = observation.begin();
    const auto add = [&to](double value) { *to++ = static_cast<float>(value); };
    for (int joint = 0; joint < int(model_->njnt); ++joint) {
      const int end =
          joint + 1 < int(model_->njnt) ? model_->jnt_qposadr[joint + 1] : int(model_->nq);
      for (int i = model_->jnt_qposadr[joint]; i < end; ++i) {
        if (turns(*model_, joint)) add(std::cos(data_->qpos[i]));
        add(turns(*model_, joint) ? std::sin(data_->qpos[i]) : data_->qpos[i]);
      }
    }
    for (int i = 0; i < int(model_->nv); ++i) add(data_->qvel[i]);
  }

  MujocoTask task_;
  Model model_;
  Data data_;
  EnvironmentSpec spec_;
  int reward_;
  int steps_ = 0;
};

}  // namespace

bool has_mujoco() {
  return true;
}

MakeEnvironment make_mujoco(const MujocoTask& task) {
  return [model = read_model(task.model), task]() -> std::unique_ptr<Environment> {
    return std::make_unique<Mujoco>(model, task);
  };
}

#endif

}  // namespace tessera::env
