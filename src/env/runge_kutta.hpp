// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>

namespace tessera::env {

/// One classical Runge-Kutta step of order four: y' = slope(y) over `dt` seconds.
template <std::size_t N, class Slope>
std::array<double, N> runge_kutta(const std::array<double, N>& y, double dt, const Slope& slope) {
  const auto moved = [&](const std::array<double, N>& k, double by) {
    std::array<double, N> result = y;
    for (std::size_t i = 0; i < N; ++i) result[i] += by * k[i];
    return result;
  };
  const auto k1 = slope(y);
  const auto k2 = slope(moved(k1, dt / 2));
  const auto k3 = slope(moved(k2, dt / 2));
  const auto k4 = slope(moved(k3, dt));
  std::array<double, N> result = y;
  for (std::size_t i = 0; i < N; ++i) result[i] += dt / 6 * (k1[i] + 2 * k2[i] + 2 * k3[i] + k4[i]);
  return result;
}

}  // namespace tessera::env
