// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tessera/graph/operation.hpp"
#include "tessera/program/program.hpp"

namespace tessera::ops {

/// Elements of one dim brought from the inputs to other places along it in the outputs, zeros
/// elsewhere; along a cut dim by one exchange between the ranks whose tiles share elements. All
/// other dims stay. Linear: partial sums pass.
class Move : public Operation {
 public:
  using Runs = std::vector<program::ExchangeStep::Run>;

  explicit Move(std::string dim) : dim_(std::move(dim)) {}
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  std::vector<Strategy> strategies(const StrategyContext& context) const override;
  void lower(program::Emitter& emitter) const override;

 protected:
  const std::string& dim() const { return dim_; }
  /// The dim's size in each output; UserError if the operation is not legal for the inputs.
  virtual std::vector<std::int64_t> sizes_after(std::span<const TensorSpec> inputs) const = 0;
  /// For the dim's sizes in the inputs.
  virtual Runs runs(const std::vector<std::int64_t>& sizes) const = 0;

 private:
  std::string dim_;
};

}  // namespace tessera::ops
