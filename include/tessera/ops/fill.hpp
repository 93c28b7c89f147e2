// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tessera/graph/operation.hpp"

namespace tessera::ops {

/// A tensor of one value, without inputs; each rank fills its tile. See ops::fill.
class Fill : public Operation {
 public:
  Fill(double value, TensorSpec spec) : value_(value), spec_(std::move(spec)) {}

  double value() const { return value_; }

  std::string type() const override { return "fill"; }
  Attributes attributes() const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  std::vector<Tensor> gradient(std::span<const Tensor> inputs, std::span<const Tensor> outputs,
                               std::span<const Tensor> output_gradients) const override;
  std::vector<Strategy> strategies(const StrategyContext& context) const override;
  void lower(program::Emitter& emitter) const override;

 private:
  double value_;
  TensorSpec spec_;
};

}  // namespace tessera::ops
