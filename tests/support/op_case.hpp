// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "support/simulated_run.hpp"
#include "tessera/graph/graph.hpp"

namespace tessera::test {

/// An input of an operation under test. Ids are i32 below `below`; all else is f64.
struct OpInput {
  enum class Fill { normal, positive, ids };
  std::string name;
  Shape shape;
  Fill fill = Fill::normal;
  std::int64_t below = 0;
};

/// One row of the operation tests.
struct OpCase {
  std::string name;
  std::vector<OpInput> inputs;
  /// Adds the operation: one f64 result.
  std::function<Tensor(Graph&, const std::vector<Tensor>&)> build;
  /// The result computed in plain loops, independently.
  std::function<std::vector<double>(const Values&)> reference;
  bool differentiable = true;
  /// Also with inputs that arrive as partial sums.
  bool partial = true;
  double tolerance = 1e-10;
  kernels::Feeds feeds = {1, 0, {}};
};

/// Runs the case on one rank: the result equals the reference, the gradients of sum(result x
/// weights) equal central differences of the reference. Then on simulated meshes 2, 3, 4, 8 and 2x2
/// under every legal layout of all dims: results and gradients equal those of one rank.
void check_op(const OpCase& op);

/// Row-major index.
std::size_t at(const Shape& shape, std::initializer_list<std::int64_t> index);

}  // namespace tessera::test
