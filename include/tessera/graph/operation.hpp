// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/attributes.hpp"
#include "tessera/graph/tensor.hpp"
#include "tessera/shape/placement.hpp"

namespace tessera {

namespace program {
class Emitter;  // program/emitter.hpp
}

/// One way to execute an operation on one mesh dim: the state that each input must have there, and
/// the state in which each output comes out. Example, a matrix product on a mesh dim that cuts the
/// summed dim: inputs {split 1, split 0}, output {partial sum}.
struct Strategy {
  std::vector<State> inputs;
  std::vector<State> outputs;
  /// What the operation's own steps send on the rank that sends most (ops::exchange_bytes), if no
  /// other mesh dim cut anything: weighed against bringing the inputs into another state.
  double bytes = 0;
};

/// What an operation may look at when it lists its strategies for one mesh dim (of size > 1).
struct StrategyContext {
  std::span<const TensorSpec> inputs;
  std::span<const TensorSpec> outputs;
  /// States that the inputs have on this mesh dim now.
  std::span<const State> current;
  /// States that the layout's rules give the outputs on this mesh dim.
  std::span<const State> wanted;
  /// Index in inputs[i]'s shape (or outputs[i]'s) of the dim that the layout's rules map to this
  /// mesh dim; -1 if none.
  std::span<const int> ruled_inputs;
  std::span<const int> ruled_outputs;
  /// Size of this mesh dim.
  std::int64_t ways = 0;
};

/// An operation of a Graph. Subclasses are immutable: all that they hold are parameters, equal on
/// all ranks. A user's own operation derives from this class as well as Tessera's.
class Operation {
 public:
  virtual ~Operation() = default;

  /// Kind of operation, snake_case: "einsum".
  virtual std::string type() const = 0;
  /// All parameters, for hashes and listings.
  virtual Attributes attributes() const { return {}; }
  /// Shape rule: specs of the outputs. Throws UserError that names dims and sizes.
  virtual std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const = 0;

  /// Gradients with respect to the inputs, built of ordinary operations in the same graph. An entry
  /// of `output_gradients` is empty if nothing depends on that output; return an empty Tensor for
  /// an input that has no gradient (ids). Default: Error "has no gradient".
  virtual std::vector<Tensor> gradient(std::span<const Tensor> inputs,
                                       std::span<const Tensor> outputs,
                                       std::span<const Tensor> output_gradients) const;

  /// Executable placements on one mesh dim. All-replicated need not be listed: it is always legal.
  virtual std::vector<Strategy> strategies(const StrategyContext& context) const;

  /// Appends the local steps and collectives that compute the outputs.
  virtual void lower(program::Emitter& emitter) const = 0;

  /// Floating-point operations for the given (local) extents of inputs and outputs.
  virtual double flops(std::span<const Shape> inputs, std::span<const Shape> outputs) const;
};

}  // namespace tessera
