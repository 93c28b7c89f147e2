// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/base/error.hpp"
#include "tessera/ops/install.hpp"
#include "tessera/ops/shape_ops.hpp"
#include "tessera/ops/strategies.hpp"
#include "tessera/program/emitter.hpp"

namespace tessera::ops {
namespace {

class Rename : public Operation {
 public:
  Rename(std::string from, std::string to) : from_(std::move(from)), to_(std::move(to)) {}
  std::string type() const override { return "rename"; }
  Attributes attributes() const override { return {{"from", from_}, {"to", to_}}; }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override {
    return {{inputs[0].shape.renamed(from_, to_), inputs[0].dtype}};
  }
  std::vector<Tensor> gradient(std::span<const Tensor>, std::span<const Tensor>,
                               std::span<const Tensor> output_gradients) const override {
    return {rename(output_gradients[0], to_, from_)};
  }
  std::vector<Strategy> strategies(const StrategyContext& context) const override;
  void lower(program::Emitter& emitter) const override { emitter.alias(0, 0); }

 private:
  std::string from_;
  std::string to_;
};

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

Tensor rename(Tensor x, const std::string& from, const std::string& to) {
  install();
  if (from == to) return x;
  return x.graph().add1(std::make_shared<Rename>(from, to), {x});
}

}  // namespace tessera::ops
