// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/ops/install.hpp"
#include "tessera/ops/shape_ops.hpp"
#include "tessera/ops/strategies.hpp"
#include "tessera/program/emitter.hpp"

namespace tessera::ops {
namespace {

class Select : public Operation {
 public:
  Select(std::string dim, std::string feed) : dim_(std::move(dim)), feed_(std::move(feed)) {}
  std::string type() const override { return "select"; }
  Attributes attributes() const override { return {{"dim", dim_}, {"feed", feed_}}; }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override {
    inputs[0].shape.index_of(dim_);
    return {{inputs[0].shape.without(dim_), inputs[0].dtype}};
  }
  std::vector<Strategy> strategies(const StrategyContext& context) const override {
    auto strategies =
        passing_cuts(context, [this](const std::string& name) { return name != dim_; });
    add_linear(strategies, context, 0, {0});
    return strategies;
  }
  void lower(program::Emitter& emitter) const override {
    const int dim = emitter.buffer(emitter.input(0)).spec.shape.index_of(dim_);
    emitter.kernel("select", {{"dim", std::int64_t{dim}}, {"feed", feed_}}, {emitter.input(0)},
                   {emitter.output(0)});
  }

 private:
  std::string dim_;
  std::string feed_;
};

}  // namespace

Tensor select(Tensor x, const std::string& dim, const std::string& feed) {
  install();
  return x.graph().add1(std::make_shared<Select>(dim, feed), {x});
}

}  // namespace tessera::ops
