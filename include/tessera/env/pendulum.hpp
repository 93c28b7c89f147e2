// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>

#include "tessera/env/environment.hpp"

namespace tessera::env {

/// Swing a pendulum up with a motor that is too weak to lift it at once.
///
/// A bob of 1 kg on a massless rod of 0.5 m, angle theta from upright, in 9.81 m/s^2; the motor
/// gives at most 1 N m (gravity: 4.905), the bearing takes 0.1 N m s per rad:
///   0.25 theta'' = 4.905 sin(theta) - 0.1 theta' + u.
/// Runge-Kutta of order four, 20 ms a step; an episode is 1,000 steps and begins at rest at a
/// uniform angle. Observation: cos(theta), sin(theta), theta' in rad/s. Reward (1 + cos theta) / 2;
/// sparse reward 1 within 8 degrees of upright (the measure of the DeepMind Control Suite, Tassa et
/// al. 2018).
class Pendulum final : public Environment {
 public:
  static constexpr double kMass = 1, kLength = 0.5, kGravity = 9.81, kTorque = 1, kDamping = 0.1;

  const EnvironmentSpec& spec() const override;
  void reset(const EpisodeKey& key, std::span<float> observation) override;
  Outcome step(std::span<const float> action, std::span<float> observation) override;
  void save(std::span<double> state) const override;
  void load(std::span<const double> state) override;

 private:
  void observe(std::span<float> observation) const;

  std::array<double, 2> state_{};  ///< theta, theta'
  int steps_ = 0;
};

}  // namespace tessera::env
