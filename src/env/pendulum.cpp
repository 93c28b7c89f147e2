// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/env/pendulum.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "runge_kutta.hpp"
#include "tessera/base/error.hpp"

namespace tessera::env {

const EnvironmentSpec& Pendulum::spec() const {
  static const EnvironmentSpec spec{"pendulum", 3, 1, 1000, 0.02, 3};
  return spec;
}

void Pendulum::reset(const EpisodeKey& key, std::span<float> observation) {
  state_ = {std::numbers::pi * (2 * start_draw(key, 0) - 1), 0};
  steps_ = 0;
  observe(observation);
}

Outcome Pendulum::step(std::span<const float> action, std::span<float> observation) {
  TESSERA_CHECK(steps_ < spec().horizon, "a step after the end of an episode");
  const double torque = kTorque * std::clamp(static_cast<double>(action[0]), -1.0, 1.0);
  const auto slope = [torque](const std::array<double, 2>& y) {
    const double turned = kMass * kGravity * kLength * std::sin(y[0]) - kDamping * y[1] + torque;
    return std::array<double, 2>{y[1], turned / (kMass * kLength * kLength)};
  };
  state_ = runge_kutta(state_, spec().step_seconds, slope);
  state_[0] = std::remainder(state_[0], 2 * std::numbers::pi);
  observe(observation);
  const double upright = std::cos(state_[0]);
  constexpr double kGoal = 8 * std::numbers::pi / 180;
  return {(1 + upright) / 2, upright > std::cos(kGoal) ? 1.0 : 0.0, 1, ++steps_ == spec().horizon};
}

void Pendulum::save(std::span<double> state) const {
  std::copy(state_.begin(), state_.end(), state.begin());
  state[2] = steps_;
}

void Pendulum::load(std::span<const double> state) {
  std::copy_n(state.begin(), state_.size(), state_.begin());
  steps_ = static_cast<int>(state[2]);
}

void Pendulum::observe(std::span<float> observation) const {
  observation[0] = static_cast<float>(std::cos(state_[0]));
  observation[1] = static_cast<float>(std::sin(state_[0]));
  observation[2] = static_cast<float>(state_[1]);
}

}  // namespace tessera::env
