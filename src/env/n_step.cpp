// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/env/n_step.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"

namespace tessera::env {

NStep::NStep(int n, double gamma, int observation, int action)
    : n_(n), gamma_(gamma), observation_(observation), action_(action) {
  check_user(n >= 1, "returns over ", n, " steps; it must be at least 1");
  check_user(gamma > 0 && gamma <= 1, "a discount of ", gamma, " a step; it lies in (0, 1]");
}

void NStep::add(std::span<const float> observation, std::span<const float> action, double reward,
                double discount, std::span<const float> next, bool last, const Take& take) {
  open_.push_back(
      {{observation.begin(), observation.end()}, {action.begin(), action.end()}, 0, 1, {}});
  for (auto& transition : open_) {
    transition.reward += transition.discount * reward;
    transition.discount *= gamma_ * discount;
  }
  if (last) {
    while (!open_.empty()) emit(next, take);
  } else if (static_cast<int>(open_.size()) == n_) {
    emit(next, take);
  }
}

void NStep::emit(std::span<const float> next, const Take& take) {
  Transition transition = std::move(open_.front());
  open_.pop_front();
  transition.next.assign(next.begin(), next.end());
  take(transition);
}

std::int64_t NStep::state_size() const {
  return 1 + std::int64_t{n_ - 1} * (observation_ + action_ + 2);
}

void NStep::save(std::span<double> state) const {
  std::fill(state.begin(), state.end(), 0.0);
  auto to = state.begin();
  *to++ = static_cast<double>(open_.size());
  for (const auto& transition : open_) {
    to = std::copy(transition.observation.begin(), transition.observation.end(), to);
    to = std::copy(transition.action.begin(), transition.action.end(), to);
    *to++ = transition.reward;
    *to++ = transition.discount;
  }
}

void NStep::load(std::span<const double> state) {
  open_.clear();
  auto from = state.begin();
  const auto count = static_cast<std::int64_t>(*from++);
  TESSERA_CHECK(count >= 0 && count < n_, "a saved n-step queue of ", count, " entries");
  const auto take = [&from](int size) {
    std::vector<float> values;
    for (int i = 0; i < size; ++i) values.push_back(static_cast<float>(*from++));
    return values;
  };
  for (std::int64_t i = 0; i < count; ++i) {
    Transition transition;
    transition.observation = take(observation_);
    transition.action = take(action_);
    transition.reward = *from++;
    transition.discount = *from++;
    open_.push_back(std::move(transition));
  }
}

}  // namespace tessera::env
