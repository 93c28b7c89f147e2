// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "tessera/plan/planner.hpp"

namespace tessera::test {

/// Options that differ from a plan's defaults in mesh and layout rules alone.
inline plan::PlanOptions layout(const std::string& mesh, const std::string& rules) {
  plan::PlanOptions options;
  options.mesh = MeshShape::parse(mesh, 0);
  options.layout = Layout::parse(rules);
  return options;
}

/// Numbers of either sign up to `scale`, no two alike.
inline std::vector<double> waves(int count, double scale = 1) {
  std::vector<double> list;
  for (int i = 0; i < count; ++i) list.push_back(scale * std::sin(1.7 * i + 0.3));
  return list;
}

}  // namespace tessera::test
