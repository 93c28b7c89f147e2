// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/program/program.hpp"

namespace tessera::program {

/// What Operation::lower appends its steps to. Inputs already have the placement of the chosen
/// strategy; outputs have the strategy's. Reads and writes are declared by the operand lists, so
/// the memory planner knows every live range.
class Emitter {
 public:
  virtual ~Emitter() = default;

  virtual int inputs() const = 0;
  virtual int outputs() const = 0;
  virtual BufferId input(int i) const = 0;
  virtual BufferId output(int i) const = 0;
  virtual const Buffer& buffer(BufferId id) const = 0;
  virtual const MeshShape& mesh() const = 0;
  /// Extents of the largest tile of a buffer.
  virtual Shape local_shape(BufferId id) const = 0;

  /// A buffer that only this operation uses.
  virtual BufferId temporary(const std::string& name, TensorSpec spec, Placement placement) = 0;

  struct KernelOptions {
    std::int64_t workspace_bytes = 0;
    double flops = 0;
    /// Pairs (input i, output j) of the operand lists that may share memory: the kernel reads
    /// element e of i before it writes element e of j and nothing of i later.
    std::vector<std::pair<int, int>> in_place;
  };
  virtual void kernel(const std::string& id, Attributes attributes, std::vector<BufferId> inputs,
                      std::vector<BufferId> outputs, KernelOptions options) = 0;
  void kernel(const std::string& id, Attributes attributes, std::vector<BufferId> inputs,
              std::vector<BufferId> outputs) {
    kernel(id, std::move(attributes), std::move(inputs), std::move(outputs), KernelOptions{});
  }

  /// Makes an output the same memory as an input (rename, reshape that moves nothing): no step.
  /// Their tiles must have the same number of elements; partial inputs are copied instead.
  virtual void alias(int output, int input) = 0;

  /// In-place all_reduce of buffers over some mesh dims as one bucket; none if the mesh dims are
  /// empty.
  virtual void all_reduce(ReduceOp op, const std::vector<int>& mesh_dims,
                          std::vector<BufferId> buffers) = 0;
  /// Moves a buffer to another placement that differs on one mesh dim (split to replicated:
  /// all_gather).
  virtual BufferId relayout(BufferId from, int mesh_dim, State to) = 0;
};

}  // namespace tessera::program
