// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <vector>

namespace tessera::env {

/// From `observation`, `action` led over n steps (fewer at an episode's end) to `next`:
/// reward = sum over k < n of gamma^k r_k, discount = gamma^n, or 0 where the task ended for good.
struct Transition {
  std::vector<float> observation;
  std::vector<float> action;
  double reward = 0;
  double discount = 1;
  std::vector<float> next;
};

/// Makes n-step transitions of the single steps of one environment (Sutton 1988; as in D4PG,
/// Barth-Maron et al. 2018). Every step begins one transition; it comes out n steps later, or
/// shorter where the episode ends: so k steps give k transitions in all.
class NStep {
 public:
  /// UserError unless n >= 1 and 0 < gamma <= 1.
  NStep(int n, double gamma, int observation, int action);

  using Take = std::function<void(const Transition&)>;
  /// A step from `observation` with `action` to `next`. With `last`, all that is unfinished comes
  /// out, oldest first.
  void add(std::span<const float> observation, std::span<const float> action, double reward,
           double discount, std::span<const float> next, bool last, const Take& take);

  /// All unfinished transitions as state_size() numbers, for checkpoints.
  std::int64_t state_size() const;
  void save(std::span<double> state) const;
  void load(std::span<const double> state);

 private:
  void emit(std::span<const float> next, const Take& take);

  int n_;
  double gamma_;
  int observation_;
  int action_;
  std::deque<Transition> open_;
};

}  // namespace tessera::env
