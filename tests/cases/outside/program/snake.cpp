// SPDX-License-Identifier: BSD-3-Clause
#include "snake.hpp"

#include <memory>
#include <tessera/base/error.hpp>
#include <tessera/ops/elementwise.hpp>
#include <tessera/ops/strategies.hpp>
#include <tessera/program/emitter.hpp>

namespace outside {
namespace {

using namespace tessera;

/// What forward and backward share: elementwise over operands of one shape, so every cut passes.
class Elementwise : public Operation {
 public:
  Elementwise(std::string kernel, double a) : kernel_(std::move(kernel)), a_(a) {}
  std::string type() const override { return kernel_; }
  Attributes attributes() const override { return {{"a", a_}}; }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override {
    check_user(inputs[0].dtype == DType::f32 || inputs[0].dtype == DType::f64, type(),
               " computes in f32 and f64, not in ", name_of(inputs[0].dtype));
    return {inputs[0]};
  }
  std::vector<Strategy> strategies(const StrategyContext& context) const override {
    return ops::passing_cuts(context, [](const std::string&) { return true; });
  }
  void lower(program::Emitter& emitter) const override {
    std::vector<program::BufferId> inputs;
    for (int i = 0; i < emitter.inputs(); ++i) inputs.push_back(emitter.input(i));
    emitter.kernel("outside_" + kernel_, attributes(), inputs, {emitter.output(0)});
  }
  double flops(std::span<const Shape> inputs, std::span<const Shape>) const override {
    return 4.0 * static_cast<double>(inputs[0].size());
  }

 protected:
  double a() const { return a_; }

 private:
  std::string kernel_;
  double a_;
};

class SnakeBackward : public Elementwise {
 public:
  explicit SnakeBackward(double a) : Elementwise("snake_backward", a) {}
};

class Snake : public Elementwise {
 public:
  explicit Snake(double a) : Elementwise("snake", a) {}
  std::vector<Tensor> gradient(std::span<const Tensor> inputs, std::span<const Tensor>,
                               std::span<const Tensor> output_gradients) const override {
    return {inputs[0].graph().add1(std::make_shared<SnakeBackward>(a()),
                                   {inputs[0], output_gradients[0]}, "snake_backward")};
  }
};

}  // namespace

Tensor snake(Tensor x, double a) {
  return x.graph().add1(std::make_shared<Snake>(a), {x}, "snake");
}

}  // namespace outside
