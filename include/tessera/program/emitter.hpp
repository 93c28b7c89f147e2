// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
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
  virtual BufferId temporary(const std::string& name, TensorSpec spec, Placement placement,
                             Windows windows) = 0;
  BufferId temporary(const std::string& name, TensorSpec spec, Placement placement) {
    return temporary(name, std::move(spec), std::move(placement), {});
  }
  /// Another name for a buffer's memory, under other dims or windows, while this operation runs.
  /// The tiles must have equally many elements.
  virtual BufferId view(BufferId of, TensorSpec spec, Placement placement, Windows windows) = 0;

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

  // Windows: an operation that needs its neighbours' elements along a cut dim (a convolution, a
  // pooling, local attention) lets the cut pass in its strategies and asks here for each rank's
  // window of the input: one message to each neighbour whose elements are needed, however far the
  // window reaches and however uneven the tiles are.
  //
  //   forward:   x' = exchange(x, windows); kernel(x' -> y)
  //   backward:  x' = exchange(x, windows); dx' = windowed(dx, windows); kernel(dy, x' -> dx');
  //              accumulate(dx', dx)
  //
  // `windows` has one entry for each tensor dim: Window::plain() for dims that need no neighbours,
  // else a Window whose `count` is the output's size along that dim (Window::sliding). Kernels see
  // the window in Tile::offset (first global index, below 0 where the window begins outside) and
  // Tile::extent. With Window::Outside::clip a tile holds no element outside the tensor, a dim that
  // is not cut costs nothing (the buffer comes back as it is), and the kernel treats what lies
  // outside [0, Tile::global) as its padding. With `fill` the tile holds the padding too.

  /// `from` with each rank's window of each dim; `from` itself where nothing is to be moved.
  virtual BufferId exchange(BufferId from, const Windows& windows, double fill = 0) = 0;
  /// A buffer with the tiles that exchange(like, windows) would give, for a kernel to write; `like`
  /// itself where those are its own.
  virtual BufferId windowed(BufferId like, const Windows& windows) = 0;
  /// The adjoint of exchange(): adds up what all ranks hold of each element and writes the sums to
  /// `into`, of which `from` is a windowed buffer. Nothing to do if they are the same.
  virtual void accumulate(BufferId from, BufferId into) = 0;
  /// Moves runs of elements along one dim (ExchangeStep). `step` says mode, dim, inputs, outputs,
  /// runs and fill; a step between ranks that share nothing becomes a local copy.
  virtual void exchange(ExchangeStep step) = 0;

  // Rings: what every rank of a mesh dim holds a part of is brought past all of them, one part at a
  // time, so that no rank holds it whole (ops/attention_ring.cpp).

  /// Another name for a buffer's memory: the tile of the rank `places` further along a mesh dim.
  virtual BufferId passing(BufferId of, int mesh_dim, std::int64_t places) = 0;
  /// Moves tiles one place along the ring (RingStep); all of one dtype, and each output one place
  /// further on than its input.
  virtual void ring(int mesh_dim, std::vector<BufferId> inputs, std::vector<BufferId> outputs) = 0;
  /// What `body` emits runs `count` times; nothing if that is 0. What it leaves in a buffer the
  /// next iteration finds. Not inside another.
  virtual void repeat(std::int64_t count, const std::function<void()>& body) = 0;
  /// Copies or casts a buffer to one of equal tiles.
  virtual void copy(BufferId from, BufferId to) = 0;
};

}  // namespace tessera::program
