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
  Rotary(std::string length, double base, bool inverse)
      : length_(std::move(length)), base_(base), inverse_(inverse) {}
  std::string type() const override { return "rotary"; }
  Attributes attributes() const override {
    return {{"length", length_}, {"base", base_}, {"inverse", std::int64_t{inverse_}}};
  }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override {
    const Shape& shape = inputs[0].shape;
    const int length = shape.index_of(length_);
    const Dim& last = shape[shape.rank() - 1];
    check_user(length < shape.rank() - 1, "rotary: positions run along '", length_,
               "', which must not be the last dim of ", shape.to_string());
    check_user(last.size % 2 == 0, "rotary: dim '", last.name, "' of ", shape.to_string(),
               " has the odd size ", last.size, "; pairs need an even one");
    return {inputs[0]};
  }
  std::vector<Tensor> gradient(std::span<const Tensor> inputs, std::span<const Tensor>,
                               std::span<const Tensor> output_gradients) const override {
    return {inputs[0].graph().add1(std::make_shared<Rotary>(length_, base_, !inverse_),
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
    const int length = emitter.buffer(emitter.input(0)).spec.shape.index_of(length_);
    program::Emitter::KernelOptions options;
    options.in_place = {{0, 0}};
    emitter.kernel("rotary",
                   {{"length_dim", std::int64_t{length}},
                    {"base", base_},
                    {"inverse", std::int64_t{inverse_}}},
                   {emitter.input(0)}, {emitter.output(0)}, options);
  }

 private:
  std::string length_;
  double base_;
  bool inverse_;
};

class Sinusoid : public Operation {
 public:
  explicit Sinusoid(TensorSpec spec) : spec_(std::move(spec)) {}
  std::string type() const override { return "sinusoid"; }
  Attributes attributes() const override {
    return {{"shape", spec_.shape.to_string()}, {"dtype", std::string(name_of(spec_.dtype))}};
  }
  std::vector<TensorSpec> infer(std::span<const TensorSpec>) const override {
    check_user(spec_.shape.rank() == 2 && spec_.shape[1].size % 2 == 0,
               "sinusoid: the table must be [length, d] with an even d, found ",
               spec_.shape.to_string());
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
    emitter.kernel("sinusoid", {}, {}, {emitter.output(0)});
  }

 private:
  TensorSpec spec_;
};

}  // namespace

Tensor rotary(Tensor x, const std::string& length, double base) {
  install();
  return x.graph().add1(std::make_shared<Rotary>(length, base, false), {x});
}

Tensor sinusoid(Graph& graph, const TensorSpec& spec) {
  install();
  return graph.add1(std::make_shared<Sinusoid>(spec), {});
}

}  // namespace tessera::ops
