// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
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
  /// Gradients of the gradients as well.
  bool second_order = true;
  /// Also with inputs that arrive as partial sums.
  bool partial = true;
  double tolerance = 1e-10;
  kernels::Feeds feeds = {1, 0, {}};
};

/// Runs the case on one rank: the result equals the reference, the gradients of sum(result x
/// weights) equal central differences of the reference, the gradients of sum(gradients x turns)
/// equal central differences of that sum. Then on simulated meshes 2, 3, 4, 8 and 2x2 under every
/// legal layout of all dims (a sample of them for second gradients): all equal those of one rank.
void check_op(const OpCase& op);

/// Meshes of processes on which check_op runs each row under a few layouts instead of simulating
/// all ranks, and how their ranks communicate.
struct Processes {
  std::vector<std::string> meshes;
  std::function<std::shared_ptr<comm::Collectives>(const MeshShape&)> collectives;
};
/// Set, before main, by a program whose ranks are processes.
inline Processes (*make_processes)() = nullptr;

/// Elements of the inputs that the environment variable TESSERA_BENCH_OPS asks for; 0 without it.
/// If it is set, check_op times the row on one rank instead, in f32 with all its dims enlarged by
/// one factor where the row allows it, and prints a line: a benchmark of all operations.
std::int64_t bench_elements();
/// Times a row; false if it cannot be built.
bool bench_op(const OpCase& op, std::int64_t elements);

/// Row-major index.
std::size_t at(const Shape& shape, std::initializer_list<std::int64_t> index);

}  // namespace tessera::test
