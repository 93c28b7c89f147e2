// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/base/error.hpp"
#include "tessera/ops/install.hpp"
#include "tessera/ops/shape_ops.hpp"
#include "tessera/ops/strategies.hpp"
#include "tessera/program/emitter.hpp"

namespace tessera::ops {
namespace {

/// slice (forward) or pad of one dim, each the other's gradient; that dim is whole on each rank.
class Window : public Operation {
 public:
  Window(bool pad, std::string dim, std::int64_t begin, std::int64_t size)
      : pad_(pad), dim_(std::move(dim)), begin_(begin), size_(size) {}
  std::string type() const override { return pad_ ? "pad" : "slice"; }
  Attributes attributes() const override {
    return {{"dim", dim_}, {"begin", begin_}, {"size", size_}};
  }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  std::vector<Tensor> gradient(std::span<const Tensor> inputs, std::span<const Tensor>,
                               std::span<const Tensor> output_gradients) const override {
    return {inputs[0].graph().add1(
        std::make_shared<Window>(!pad_, dim_, begin_, inputs[0].shape().size_of(dim_)),
        {output_gradients[0]})};
  }
  std::vector<Strategy> strategies(const StrategyContext& context) const override {
    auto strategies =
        passing_cuts(context, [this](const std::string& name) { return name != dim_; });
    add_linear(strategies, context, 0, {0});
    return strategies;
  }
  void lower(program::Emitter& emitter) const override {
    std::vector<std::int64_t> begin;
    for (const auto& dim : emitter.buffer(emitter.input(0)).spec.shape)
      begin.push_back(dim.name == dim_ ? begin_ : 0);
    emitter.kernel(type(), {{"begin", begin}}, {emitter.input(0)}, {emitter.output(0)});
  }

 private:
  bool pad_;
  std::string dim_;
  std::int64_t begin_;
  std::int64_t size_;
};

std::vector<TensorSpec> Window::infer(std::span<const TensorSpec> inputs) const {
  const Shape& shape = inputs[0].shape;
  const std::int64_t old = shape.size_of(dim_);
  const std::int64_t inner = pad_ ? old : size_, outer = pad_ ? size_ : old;
  check_user(begin_ >= 0 && inner >= 0 && begin_ + inner <= outer, type(), " of dim '", dim_,
             "' of ", shape.to_string(), ": [", begin_, ", ", begin_ + inner,
             ") does not lie within [0, ", outer, ")");
  return {{shape.resized(dim_, size_), inputs[0].dtype}};
}

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

Tensor slice(Tensor x, const std::string& dim, std::int64_t begin, std::int64_t size) {
  install();
  return x.graph().add1(std::make_shared<Window>(false, dim, begin, size), {x});
}

Tensor pad(Tensor x, const std::string& dim, std::int64_t begin, std::int64_t size) {
  install();
  return x.graph().add1(std::make_shared<Window>(true, dim, begin, size), {x});
}

Tensor select(Tensor x, const std::string& dim, const std::string& feed) {
  install();
  return x.graph().add1(std::make_shared<Select>(dim, feed), {x});
}

}  // namespace tessera::ops
