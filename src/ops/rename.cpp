// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/base/error.hpp"
#include "tessera/ops/install.hpp"
#include "tessera/ops/shape_ops.hpp"
#include "tessera/ops/strategies.hpp"
#include "tessera/program/emitter.hpp"

namespace tessera::ops {
namespace {

using Renames = std::vector<std::pair<std::string, std::string>>;

class Rename : public Operation {
 public:
  explicit Rename(Renames names) : names_(std::move(names)) {}
  std::string type() const override { return "rename"; }
  Attributes attributes() const override {
    Attributes attributes;
    for (const auto& [from, to] : names_) attributes.set(from, to);
    return attributes;
  }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  std::vector<Tensor> gradient(std::span<const Tensor>, std::span<const Tensor>,
                               std::span<const Tensor> output_gradients) const override {
    Renames back = names_;
    for (auto& [from, to] : back) std::swap(from, to);
    return {rename(output_gradients[0], back)};
  }
  std::vector<Strategy> strategies(const StrategyContext& context) const override;
  void lower(program::Emitter& emitter) const override { emitter.alias(0, 0); }

 private:
  Renames names_;
};

std::vector<TensorSpec> Rename::infer(std::span<const TensorSpec> inputs) const {
  std::vector<Dim> dims = inputs[0].shape.dims();
  for (const auto& [from, to] : names_)
    dims[static_cast<std::size_t>(inputs[0].shape.index_of(from))].name = to;
  return {{Shape(std::move(dims)), inputs[0].dtype}};
}

std::vector<Strategy> Rename::strategies(const StrategyContext& context) const {
  // Dims keep their places, so every state does.
  std::vector<Strategy> strategies;
  const auto pass = [&](const State& state) { strategies.push_back({{state}, {state}}); };
  if (context.current[0].is_split() || context.current[0].kind == State::Kind::partial_sum)
    pass(context.current[0]);
  if (context.ruled_inputs[0] >= 0) pass(State::split(context.ruled_inputs[0]));
  if (context.ruled_outputs[0] >= 0) pass(State::split(context.ruled_outputs[0]));
  return strategies;
}

}  // namespace

Tensor rename(Tensor x, const Renames& names) {
  install();
  return x.graph().add1(std::make_shared<Rename>(names), {x});
}

Tensor rename(Tensor x, const std::string& from, const std::string& to) {
  if (from == to) return x;
  return rename(x, {{from, to}});
}

}  // namespace tessera::ops
