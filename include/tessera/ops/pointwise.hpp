// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/graph/graph.hpp"
#include "tessera/ops/pointwise_code.hpp"

namespace tessera::ops {

/// Elementwise operation with broadcast by name: each output element is a function (`code`) of the
/// inputs' elements at the same names. All outputs have one shape; an input's dims are a subset of
/// its dims, in any order.
///
/// Chains of them may be fused: inline the producer's code into the consumer's (see PointwiseCode).
class Pointwise : public Operation {
 public:
  /// `dtypes`: one for each store.
  Pointwise(PointwiseCode code, Shape shape, std::vector<DType> dtypes);

  const PointwiseCode& code() const { return code_; }
  const Shape& shape() const { return shape_; }
  const std::vector<DType>& dtypes() const { return dtypes_; }

  std::string type() const override { return "pointwise"; }
  Attributes attributes() const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  std::vector<Tensor> gradient(std::span<const Tensor> inputs, std::span<const Tensor> outputs,
                               std::span<const Tensor> output_gradients) const override;
  std::vector<Strategy> strategies(const StrategyContext& context) const override;
  void lower(program::Emitter& emitter) const override;
  double flops(std::span<const Shape> inputs, std::span<const Shape> outputs) const override;

 private:
  PointwiseCode code_;
  Shape shape_;
  std::vector<DType> dtypes_;
};

struct PointwiseOptions {
  /// Of the outputs; default: the inputs' dims united in order.
  std::optional<Shape> shape;
  /// Of each output; default for all: result_dtype.
  std::vector<DType> dtypes;
  std::string name;
};

/// Adds a Pointwise operation: `function` gets one Value for each input and returns what is stored.
///   ops::pointwise({x, bias}, [](auto in) { return std::vector{(in[0] + in[1]).apply(…)}; });
std::vector<Tensor> pointwise(
    const std::vector<Tensor>& inputs,
    const std::function<std::vector<Value>(std::span<const Value>)>& function,
    PointwiseOptions options = {});
/// The same with one output.
Tensor pointwise1(const std::vector<Tensor>& inputs,
                  const std::function<Value(std::span<const Value>)>& function,
                  PointwiseOptions options = {});

/// The widest dtype of the inputs that have all dims of the result, else of all inputs: a 16-bit
/// activation stays one when an f32 bias is added.
DType result_dtype(const std::vector<Tensor>& inputs, const Shape& shape);

}  // namespace tessera::ops
