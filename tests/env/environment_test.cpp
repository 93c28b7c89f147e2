// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/env/environment.hpp"

#include <array>
#include <cmath>
#include <numbers>

#include "support/catch.hpp"
#include "tessera/base/error.hpp"
#include "tessera/env/cart_pole.hpp"
#include "tessera/env/pendulum.hpp"

using namespace tessera;
using namespace tessera::env;

namespace {

/// Energy of the pendulum about its bearing, in joules.
double energy(std::span<const double> state) {
  const double speed = Pendulum::kLength * state[1];
  return Pendulum::kMass *
         (speed * speed / 2 + Pendulum::kGravity * Pendulum::kLength * std::cos(state[0]));
}

/// Energy of cart and pole: kinetic of both, turning about the pole's middle, and height.
double cart_energy(std::span<const double> s) {
  const double l = CartPole::kHalfLength, m = CartPole::kPole;
  const double across = s[1] + l * s[3] * std::cos(s[2]), up = -l * s[3] * std::sin(s[2]);
  return CartPole::kCart * s[1] * s[1] / 2 + m * (across * across + up * up) / 2 +
         m * l * l / 3 * s[3] * s[3] / 2 + m * CartPole::kGravity * l * std::cos(s[2]);
}

std::vector<float> run(Environment& environment, int steps, float action) {
  std::vector<float> observation(static_cast<std::size_t>(environment.spec().observation));
  const std::vector<float> actions(static_cast<std::size_t>(environment.spec().action), action);
  for (int i = 0; i < steps; ++i) environment.step(actions, observation);
  return observation;
}

}  // namespace

TEST_CASE("the pendulum loses the energy that its damping takes, and no other") {
  Pendulum pendulum;
  std::array<float, 3> observation{};
  const std::array<float, 1> none{};
  pendulum.load(std::array{2.0, 1.0, 0.0});
  std::array<double, 3> before{}, after{};
  double taken = 0;
  pendulum.save(before);
  for (int i = 0; i < 500; ++i) {
    std::array<double, 3> from{}, to{};
    pendulum.save(from);
    pendulum.step(none, observation);
    pendulum.save(to);
    // Power of the damping is -0.1 theta'^2; Simpson's rule over the step with its middle speed.
    const double middle = (from[1] + to[1]) / 2;
    taken +=
        Pendulum::kDamping * 0.02 * (from[1] * from[1] + 4 * middle * middle + to[1] * to[1]) / 6;
  }
  pendulum.save(after);
  CHECK(energy(before) - energy(after) == Approx(taken).epsilon(0.01));
  CHECK(taken > 0.5);
}

TEST_CASE("the pendulum swings with the frequency of small angles") {
  Pendulum pendulum;
  std::array<float, 3> observation{};
  const std::array<float, 1> none{};
  pendulum.load(std::array{std::numbers::pi - 0.01, 0.0, 0.0});
  int crossings = 0;
  float last = 0.01F;
  for (int i = 0; i < 500; ++i) {
    pendulum.step(none, observation);
    if (observation[1] * last < 0) ++crossings;
    last = observation[1];
  }
  const double damping = Pendulum::kDamping / (2 * 0.25);
  const double frequency = std::sqrt(Pendulum::kGravity / Pendulum::kLength - damping * damping);
  CHECK(crossings == static_cast<int>(10 * frequency / std::numbers::pi + 0.5));
}

TEST_CASE("the pendulum's motor cannot lift it at once") {
  Pendulum pendulum;
  std::array<float, 3> observation{};
  pendulum.load(std::array{std::numbers::pi, 0.0, 0.0});
  const std::array<float, 1> full{1};
  double highest = -1;
  for (int i = 0; i < 300; ++i) {
    pendulum.step(full, observation);
    highest = std::max(highest, static_cast<double>(observation[0]));
  }
  CHECK(highest < 0);
}

TEST_CASE("cart and pole keep their energy while nothing pushes") {
  CartPole cart;
  cart.load(std::array{0.0, 0.0, 1.2, 0.5, 0.0});
  std::array<double, 5> before{}, after{};
  cart.save(before);
  run(cart, 400, 0);
  cart.save(after);
  CHECK(std::abs(after[0]) < CartPole::kRail);
  CHECK(cart_energy(after) == Approx(cart_energy(before)).epsilon(1e-6));
}

TEST_CASE("a push does its work on cart and pole, and a stop takes the speed") {
  CartPole cart;
  cart.load(std::array{0.0, 0.0, 3.0, 0.0, 0.0});
  std::array<double, 5> before{}, after{};
  cart.save(before);
  run(cart, 20, 0.5F);
  cart.save(after);
  // The force is constant, so its work is force times way.
  CHECK(cart_energy(after) - cart_energy(before) ==
        Approx(CartPole::kForce * 0.5 * after[0]).epsilon(1e-6));
  run(cart, 200, 1);
  cart.save(after);
  CHECK(after[0] == CartPole::kRail);
  CHECK(after[1] == 0);
}

TEST_CASE("rewards lie in [0, 1] and are highest in the goal") {
  const auto reward = [](const std::string& name, std::vector<double> state) {
    const auto environment = make_environment(name);
    environment->load(state);
    std::vector<float> observation(static_cast<std::size_t>(environment->spec().observation));
    return environment->step(std::vector<float>{0}, observation);
  };
  CHECK(reward("pendulum", {0, 0, 0}).reward == 1);
  CHECK(reward("pendulum", {0, 0, 0}).sparse_reward == 1);
  CHECK(reward("pendulum", {std::numbers::pi, 0, 0}).reward == Approx(0).margin(1e-12));
  CHECK(reward("pendulum", {0.2, 0, 0}).sparse_reward == 0);
  CHECK(reward("cart_pole", {0, 0, 0, 0, 0}).reward == 1);
  CHECK(reward("cart_pole", {0, 0, 0, 0, 0}).sparse_reward == 1);
  CHECK(reward("cart_pole", {1.8, 0, 0, 0, 0}).reward < 0.7);
  CHECK(reward("cart_pole", {0, 0, std::numbers::pi, 0, 0}).reward == Approx(0).margin(1e-9));
}

TEST_CASE("an episode is a function of seed, environment and number, and resumes exactly") {
  for (const auto& name : environment_names()) {
    INFO(name);
    const auto one = make_environment(name), other = make_environment(name);
    const auto size = static_cast<std::size_t>(one->spec().observation);
    std::vector<float> a(size), b(size), c(size);
    one->reset({7, 3, 2}, a);
    other->reset({7, 3, 2}, b);
    CHECK(a == b);
    other->reset({7, 3, 3}, c);
    CHECK(a != c);
    other->reset({7, 4, 2}, c);
    CHECK(a != c);
    run(*one, 100, 0.7F);
    std::vector<double> state(static_cast<std::size_t>(one->spec().state));
    one->save(state);
    other->load(state);
    CHECK(run(*one, 100, -0.3F) == run(*other, 100, -0.3F));
  }
}

TEST_CASE("an episode ends at its horizon, and steps beyond are refused") {
  for (const auto& name : environment_names()) {
    INFO(name);
    const auto environment = make_environment(name);
    std::vector<float> observation(static_cast<std::size_t>(environment->spec().observation));
    environment->reset({1, 0, 0}, observation);
    const std::vector<float> action{0.1F};
    int steps = 1;
    while (!environment->step(action, observation).last) ++steps;
    CHECK(steps == environment->spec().horizon);
    CHECK_THROWS_AS(environment->step(action, observation), Error);
  }
}

TEST_CASE("an unknown environment is named with the nearest that there is") {
  std::string message;
  try {
    make_environment("pendulun");
  } catch (const UserError& error) {
    message = error.what();
  }
  CHECK(message.find("did you mean 'pendulum'") != std::string::npos);
}
