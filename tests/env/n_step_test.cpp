// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/env/n_step.hpp"

#include <cmath>

#include "support/catch.hpp"
#include "tessera/base/error.hpp"

using namespace tessera;
using namespace tessera::env;

namespace {

double reward_of(int step) {
  return std::sin(1.0 + step);
}

/// Steps first … last - 1 of an episode of `length` steps; observation k is {k}, action {-k}.
void run(NStep& returns, int first, int last, int length, double end_discount,
         std::vector<Transition>& out) {
  for (int k = first; k < last; ++k) {
    const bool ends = k + 1 == length;
    const std::vector<float> observation{static_cast<float>(k)}, next{static_cast<float>(k + 1)};
    const std::vector<float> action{static_cast<float>(-k)};
    returns.add(observation, action, reward_of(k), ends ? end_discount : 1, next, ends,
                [&](const Transition& transition) { out.push_back(transition); });
  }
}

}  // namespace

TEST_CASE("n-step returns equal their sums, shorter at an episode's end") {
  constexpr double kGamma = 0.9;
  constexpr int kLength = 12;
  for (int n : {1, 3, 5, 20})
    for (double end_discount : {1.0, 0.0}) {
      NStep returns(n, kGamma, 1, 1);
      std::vector<Transition> out;
      run(returns, 0, kLength, kLength, end_discount, out);
      REQUIRE(out.size() == kLength);
      for (int k = 0; k < kLength; ++k) {
        const int steps = std::min(n, kLength - k);
        double reward = 0, discount = 1;
        for (int j = 0; j < steps; ++j) {
          reward += discount * reward_of(k + j);
          discount *= kGamma * (k + j + 1 == kLength ? end_discount : 1);
        }
        const auto& transition = out[static_cast<std::size_t>(k)];
        CHECK(transition.observation[0] == static_cast<float>(k));
        CHECK(transition.action[0] == static_cast<float>(-k));
        CHECK(transition.reward == Approx(reward));
        CHECK(transition.discount == Approx(discount));
        CHECK(transition.next[0] == static_cast<float>(k + steps));
      }
    }
}

TEST_CASE("unfinished transitions survive a checkpoint") {
  for (int at : {0, 1, 2, 7}) {
    std::vector<Transition> whole, parts;
    NStep one(4, 0.8, 1, 1), before(4, 0.8, 1, 1), after(4, 0.8, 1, 1);
    run(one, 0, 10, 10, 1, whole);
    run(before, 0, at, 10, 1, parts);
    std::vector<double> state(static_cast<std::size_t>(before.state_size()));
    before.save(state);
    after.load(state);
    run(after, at, 10, 10, 1, parts);
    REQUIRE(parts.size() == whole.size());
    for (std::size_t i = 0; i < whole.size(); ++i) {
      CHECK(parts[i].reward == whole[i].reward);
      CHECK(parts[i].discount == whole[i].discount);
      CHECK(parts[i].next == whole[i].next);
    }
  }
}

TEST_CASE("returns over no step and discounts above 1 are refused") {
  CHECK_THROWS_AS(NStep(0, 0.9, 1, 1), UserError);
  CHECK_THROWS_AS(NStep(1, 1.5, 1, 1), UserError);
}
