// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tessera/ops/pointwise_code.hpp"
#include "tessera/program/program.hpp"

namespace tessera::plan {

/// The code and operands of a `pointwise` kernel step, taken apart so that two can be joined.
struct PointwiseProgram {
  ops::PointwiseCode code;
  std::vector<program::BufferId> inputs;
  std::vector<program::BufferId> outputs;
  std::vector<std::vector<std::int64_t>> maps;  ///< by input: output dim -> input dim or -1

  static PointwiseProgram of(const program::KernelStep& step);
  /// The step's operands and attributes replaced by this program's.
  void write_to(program::KernelStep& step) const;
  bool is_identity_map(std::size_t input) const;
};

/// A program that copies (and casts) a tensor of `rank` dims.
PointwiseProgram copy_program(program::BufferId from, program::BufferId to, int rank);

/// `producer` computed inside `consumer`, which reads producer's output `joint`. With `keep`, the
/// producer's outputs are still stored. Empty if the result would pass the kernel's limits.
std::optional<PointwiseProgram> join_programs(const PointwiseProgram& producer,
                                              const PointwiseProgram& consumer,
                                              program::BufferId joint, bool keep);

}  // namespace tessera::plan
