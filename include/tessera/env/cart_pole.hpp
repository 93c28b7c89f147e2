// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>

#include "tessera/env/environment.hpp"

namespace tessera::env {

/// Swing up and balance a pole on a cart that runs on a short rail.
///
/// Cart 1 kg, pole a uniform rod of 0.1 kg and 1 m (half length l = 0.5), force F = 10 N times the
/// action, no friction (Florian, "Correct equations for the dynamics of the cart-pole system"):
///   theta'' (4/3 - m cos^2/(M+m)) l = g sin - cos (F + m l theta'^2 sin) / (M+m)
///   x'' = (F + m l (theta'^2 sin - theta'' cos)) / (M+m).
/// At |x| = 1.8 m a stop takes the cart's speed. Runge-Kutta of order four, 10 ms a step, 1,000
/// steps an episode, which begins hanging, disturbed by uniform numbers of 0.01. Observation: x,
/// cos(theta), sin(theta), x', theta'. The reward is the Control Suite's product (Tassa et al.
/// 2018): upright (1 + cos theta) / 2, centred, small action, small speed; sparse reward 1 where
/// cos(theta) > 0.995 and |x| < 0.25.
class CartPole final : public Environment {
 public:
  static constexpr double kCart = 1, kPole = 0.1, kHalfLength = 0.5, kGravity = 9.81, kForce = 10;
  static constexpr double kRail = 1.8;

  const EnvironmentSpec& spec() const override;
  void reset(const EpisodeKey& key, std::span<float> observation) override;
  Outcome step(std::span<const float> action, std::span<float> observation) override;
  void save(std::span<double> state) const override;
  void load(std::span<const double> state) override;

 private:
  void observe(std::span<float> observation) const;

  std::array<double, 4> state_{};  ///< x, x', theta, theta'
  int steps_ = 0;
};

}  // namespace tessera::env
