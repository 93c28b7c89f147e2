// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/env/cart_pole.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "runge_kutta.hpp"
#include "tessera/base/error.hpp"

namespace tessera::env {
namespace {

/// 1 at 0, 0.1 at the margin, falling as a Gaussian (Control Suite's `tolerance`).
double near_zero(double x, double margin) {
  static const double kScale = std::sqrt(-2 * std::log(0.1));
  const double scaled = kScale * x / margin;
  return std::exp(-scaled * scaled / 2);
}

std::array<double, 4> slope(const std::array<double, 4>& y, double force) {
  constexpr double kTotal = CartPole::kCart + CartPole::kPole;
  constexpr double kMoment = CartPole::kPole * CartPole::kHalfLength;
  const double sine = std::sin(y[2]), cosine = std::cos(y[2]);
  const double push = force + kMoment * y[3] * y[3] * sine;
  const double turn =
      (CartPole::kGravity * sine - cosine * push / kTotal) /
      (CartPole::kHalfLength * (4.0 / 3 - CartPole::kPole * cosine * cosine / kTotal));
  return {y[1], (push - kMoment * turn * cosine) / kTotal, y[3], turn};
}

}  // namespace

const EnvironmentSpec& CartPole::spec() const {
  static const EnvironmentSpec spec{"cart_pole", 5, 1, 1000, 0.01, 5};
  return spec;
}

void CartPole::reset(const EpisodeKey& key, std::span<float> observation) {
  for (std::size_t i = 0; i < state_.size(); ++i)
    state_[i] = 0.01 * (2 * start_draw(key, static_cast<std::int64_t>(i)) - 1);
  state_[2] += std::numbers::pi;
  steps_ = 0;
  observe(observation);
}

Outcome CartPole::step(std::span<const float> action, std::span<float> observation) {
  TESSERA_CHECK(steps_ < spec().horizon, "a step after the end of an episode");
  const double control = std::clamp(static_cast<double>(action[0]), -1.0, 1.0);
  state_ = runge_kutta(state_, spec().step_seconds,
                       [&](const std::array<double, 4>& y) { return slope(y, kForce * control); });
  if (std::abs(state_[0]) > kRail) {
    state_[0] = std::copysign(kRail, state_[0]);
    state_[1] = 0;
  }
  state_[2] = std::remainder(state_[2], 2 * std::numbers::pi);
  observe(observation);
  const double upright = std::cos(state_[2]);
  const double centred = (1 + near_zero(state_[0], 2)) / 2;
  const double small_action = (4 + (1 - control * control)) / 5;
  const double small_speed = (1 + near_zero(state_[3], 5)) / 2;
  const bool goal = upright > 0.995 && std::abs(state_[0]) < 0.25;
  return {(1 + upright) / 2 * centred * small_action * small_speed, goal ? 1.0 : 0.0, 1,
          ++steps_ == spec().horizon};
}

void CartPole::save(std::span<double> state) const {
  std::copy(state_.begin(), state_.end(), state.begin());
  state[4] = steps_;
}

void CartPole::load(std::span<const double> state) {
  std::copy_n(state.begin(), state_.size(), state_.begin());
  steps_ = static_cast<int>(state[4]);
}

void CartPole::observe(std::span<float> observation) const {
  observation[0] = static_cast<float>(state_[0]);
  observation[1] = static_cast<float>(std::cos(state_[2]));
  observation[2] = static_cast<float>(std::sin(state_[2]));
  observation[3] = static_cast<float>(state_[1]);
  observation[4] = static_cast<float>(state_[3]);
}

}  // namespace tessera::env
