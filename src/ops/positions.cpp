// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/ops/positions.hpp"

#include "tessera/base/error.hpp"
#include "tessera/ops/install.hpp"
#include "tessera/ops/strategies.hpp"
#include "tessera/program/emitter.hpp"

namespace tessera::ops {
namespace {

/// A rotation by each position; its gradient turns back.
class Rotary : public Operation {
 public:
  /// Positions along `length`, or, if that is "", the one that the feed `feed` holds.
  Rotary(std::string length, std::string feed, double base, bool inverse)
      : length_(std::move(length)), feed_(std::move(feed)), base_(base), inverse_(inverse) {}
  std::string type() const override { return "rotary"; }
  Attributes attributes() const override {
    return {
        {"length", length_}, {"feed", feed_}, {"base", base_}, {"inverse", std::int64_t{inverse_}}};
  }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override {
    const Shape& shape = inputs[0].shape;
    check_user(shape.rank() > 0, "rotary: a scalar has no pairs to turn");
    const int length = length_.empty() ? -1 : shape.index_of(length_);
    const Dim& last = shape[shape.rank() - 1];
    check_user(length < shape.rank() - 1, "rotary: positions run along '", length_,
               "', which must not be the last dim of ", shape.to_string());
    check_user(last.size % 2 == 0, "rotary: dim '", last.name, "' of ", shape.to_string(),
               " has the odd size ", last.size, "; pairs need an even one");
    return {inputs[0]};
  }
  std::vector<Tensor> gradient(std::span<const Tensor> inputs, std::span<const Tensor>,
                               std::span<const Tensor> output_gradients) const override {
    return {inputs[0].graph().add1(std::make_shared<Rotary>(length_, feed_, base_, !inverse_),
                                   {output_gradients[0]})};
  }
  std::vector<Strategy> strategies(const StrategyContext& context) const override {
    const Shape shape = context.inputs[0].shape;
    auto strategies = passing_cuts(
        context, [&](const std::string& name) { return name != shape[shape.rank() - 1].name; });
    add_linear(strategies, context, 0, {0});
    return strategies;
  }
  void lower(program::Emitter& emitter) const override {
    const Shape& shape = emitter.buffer(emitter.input(0)).spec.shape;
    const int length = length_.empty() ? -1 : shape.index_of(length_);
    program::Emitter::KernelOptions options;
    options.in_place = {{0, 0}};
    emitter.kernel("rotary",
                   {{"length_dim", std::int64_t{length}},
                    {"feed", feed_},
                    {"base", base_},
                    {"inverse", std::int64_t{inverse_}}},
                   {emitter.input(0)}, {emitter.output(0)}, options);
  }

 private:
  std::string length_;
  std::string feed_;
  double base_;
  bool inverse_;
};

class Sinusoid : public Operation {
 public:
  explicit Sinusoid(TensorSpec spec, std::string feed = "")
      : spec_(std::move(spec)), feed_(std::move(feed)) {}
  std::string type() const override { return "sinusoid"; }
  Attributes attributes() const override {
    return {{"shape", spec_.shape.to_string()},
            {"dtype", std::string(name_of(spec_.dtype))},
            {"feed", feed_}};
  }
  std::vector<TensorSpec> infer(std::span<const TensorSpec>) const override {
    const Shape& shape = spec_.shape;
    check_user(shape.rank() == (feed_.empty() ? 2 : 1) && shape[shape.rank() - 1].size % 2 == 0,
               "sinusoid: the table must be ", feed_.empty() ? "[length, d]" : "[d]",
               " with an even d, found ", shape.to_string());
    return {spec_};
  }
  std::vector<Tensor> gradient(std::span<const Tensor>, std::span<const Tensor>,
                               std::span<const Tensor>) const override {
    return {};
  }
  std::vector<Strategy> strategies(const StrategyContext& context) const override {
    return passing_cuts(context, [](const std::string&) { return true; });
  }
  void lower(program::Emitter& emitter) const override {
    emitter.kernel("sinusoid", {{"feed", feed_}}, {}, {emitter.output(0)});
  }

 private:
  TensorSpec spec_;
  std::string feed_;
};

}  // namespace

Tensor rotary(Tensor x, const std::string& length, double base) {
  install();
  return x.graph().add1(std::make_shared<Rotary>(length, "", base, false), {x});
}

Tensor rotary_at(Tensor x, const std::string& feed, double base) {
  install();
  return x.graph().add1(std::make_shared<Rotary>("", feed, base, false), {x}, "rotary");
}

Tensor sinusoid(Graph& graph, const TensorSpec& spec) {
  install();
  return graph.add1(std::make_shared<Sinusoid>(spec), {});
}

Tensor sinusoid_at(Graph& graph, const TensorSpec& spec, const std::string& feed) {
  install();
  return graph.add1(std::make_shared<Sinusoid>(spec, feed), {}, "sinusoid");
}

}  // namespace tessera::ops
