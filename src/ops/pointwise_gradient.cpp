// SPDX-License-Identifier: BSD-3-Clause
#include <numbers>

#include "tessera/base/error.hpp"
#include "tessera/ops/pointwise_code.hpp"

namespace tessera::ops {
namespace {

/// Reverse walk over the forward code, which the gradient's code repeats.
class Differentiator {
 public:
  Differentiator(const PointwiseCode& forward, int gradients)
      : forward_(forward), code_(forward.inputs() + gradients) {
    for (int i = 0; i < forward.inputs(); ++i) map_.push_back(i);
    for (const auto& instruction : forward.instructions())
      map_.push_back(
          instruction.op == PointOp::constant
              ? code_.constant(forward.constants()[static_cast<std::size_t>(instruction.a)])
              : code_.append(instruction.op, at(instruction.a), at(instruction.b),
                             at(instruction.c)));
    adjoint_.resize(static_cast<std::size_t>(forward.registers()), -1);
  }

  void seed(int reg, int gradient_input) {
    accumulate(reg, {&code_, forward_.inputs() + gradient_input});
  }

  PointwiseCode run() {
    for (int k = static_cast<int>(forward_.instructions().size()); k-- > 0;) {
      const int reg = forward_.inputs() + k;
      const int adjoint = adjoint_[static_cast<std::size_t>(reg)];
      if (adjoint < 0) continue;
      const auto& instruction = forward_.instructions()[static_cast<std::size_t>(k)];
      step(instruction, {&code_, adjoint}, {&code_, at(reg)});
    }
    for (int i = 0; i < forward_.inputs(); ++i)
      code_.stores.push_back(adjoint_[static_cast<std::size_t>(i)]);
    return std::move(code_);
  }

 private:
  int at(int reg) const { return reg < 0 ? -1 : map_[static_cast<std::size_t>(reg)]; }

  void accumulate(int reg, Value value) {
    int& adjoint = adjoint_[static_cast<std::size_t>(reg)];
    adjoint = adjoint < 0 ? value.reg() : (Value(&code_, adjoint) + value).reg();
  }

  /// Adds to the adjoints of the operands; g: adjoint of the result, y: the result.
  void step(const PointwiseCode::Instruction& instruction, Value g, Value y);
  bool binary_step(const PointwiseCode::Instruction& instruction, Value g, Value y);
  Value unary_factor(PointOp op, Value a, Value y);
  Value second_factor(PointOp op, Value a);

  const PointwiseCode& forward_;
  PointwiseCode code_;
  std::vector<int> map_;
  std::vector<int> adjoint_;
};

void Differentiator::step(const PointwiseCode::Instruction& instruction, Value g, Value y) {
  switch (instruction.op) {
    case PointOp::constant:
    case PointOp::less:
    case PointOp::equal:
    case PointOp::is_finite:
    case PointOp::floor:
    case PointOp::relu_derivative:
      return;
    case PointOp::copy:
      return accumulate(instruction.a, g);
    case PointOp::negate:
      return accumulate(instruction.a, -g);
    default:
      break;
  }
  if (binary_step(instruction, g, y)) return;
  const Value a(&code_, at(instruction.a));
  if (instruction.op == PointOp::absolute)
    return accumulate(instruction.a, select(a.apply(PointOp::less, a.constant(0)), -g, g));
  accumulate(instruction.a, g * unary_factor(instruction.op, a, y));
}

bool Differentiator::binary_step(const PointwiseCode::Instruction& instruction, Value g, Value y) {
  const Value a(&code_, at(instruction.a)), b(&code_, at(instruction.b));
  double constant = 0;
  switch (instruction.op) {
    case PointOp::add:
      accumulate(instruction.a, g);
      accumulate(instruction.b, g);
      return true;
    case PointOp::subtract:
      accumulate(instruction.a, g);
      accumulate(instruction.b, -g);
      return true;
    case PointOp::multiply:
      accumulate(instruction.a, g * b);
      accumulate(instruction.b, g * a);
      return true;
    case PointOp::multiply_add:
      accumulate(instruction.a, g * b);
      accumulate(instruction.b, g * a);
      accumulate(instruction.c, g);
      return true;
    case PointOp::divide:
      accumulate(instruction.a, g / b);
      accumulate(instruction.b, -(g * y / b));
      return true;
    case PointOp::minimum:
    case PointOp::maximum: {
      const Value second = instruction.op == PointOp::minimum ? b.apply(PointOp::less, a)
                                                              : a.apply(PointOp::less, b);
      Value of_a = g, of_b = g.constant(0);
      // Equal operands share the gradient; at a constant bound x has all of it.
      if (!code_.is_constant(b.reg(), constant)) {
        const Value first = instruction.op == PointOp::minimum ? a.apply(PointOp::less, b)
                                                               : b.apply(PointOp::less, a);
        const Value of_equal = code_.is_constant(a.reg(), constant) ? g : 0.5 * g;
        of_a = select(first, g, of_equal);
        of_b = select(first, g.constant(0), of_equal);
      }
      accumulate(instruction.a, select(second, g.constant(0), of_a));
      accumulate(instruction.b, select(second, g, of_b));
      return true;
    }
    case PointOp::power:
      accumulate(instruction.a, g * b * a.apply(PointOp::power, b + -1.0));
      if (!code_.is_constant(b.reg(), constant))
        accumulate(instruction.b, g * y * a.apply(PointOp::log));
      return true;
    case PointOp::select:
      accumulate(instruction.b, select(a, g, g.constant(0)));
      accumulate(instruction.c, select(a, g.constant(0), g));
      return true;
    default:
      return false;
  }
}

Value Differentiator::unary_factor(PointOp op, Value a, Value y) {
  switch (op) {
    case PointOp::square:
      return 2.0 * a;
    case PointOp::sqrt:
      return y.constant(0.5) / y;
    case PointOp::rsqrt:
      return -0.5 * (y * y * y);
    case PointOp::reciprocal:
      return -(y * y);
    case PointOp::exp:
      return y;
    case PointOp::log:
      return a.apply(PointOp::reciprocal);
    case PointOp::sin:
      return a.apply(PointOp::cos);
    case PointOp::cos:
      return -a.apply(PointOp::sin);
    case PointOp::tanh:
      return 1.0 - y * y;
    case PointOp::erf:
      return 2.0 * std::numbers::inv_sqrtpi * (-(a * a)).apply(PointOp::exp);
    case PointOp::sigmoid:
      return y * (1.0 - y);
    case PointOp::relu:
      return a.apply(PointOp::relu_derivative);
    case PointOp::gelu:
      return a.apply(PointOp::gelu_derivative);
    case PointOp::gelu_tanh:
      return a.apply(PointOp::gelu_tanh_derivative);
    case PointOp::silu:
      return a.apply(PointOp::silu_derivative);
    default:
      return second_factor(op, a);
  }
}

/// Derivatives of the activations' derivatives, in instructions that have derivatives themselves.
Value Differentiator::second_factor(PointOp op, Value a) {
  switch (op) {
    case PointOp::gelu_derivative: {
      // d/da (Phi + a phi) = (2 - a^2) phi.
      const Value square = a * a;
      const Value density =
          std::numbers::inv_sqrtpi / std::numbers::sqrt2 * (-0.5 * square).apply(PointOp::exp);
      return (2.0 - square) * density;
    }
    case PointOp::gelu_tanh_derivative: {
      // t = tanh(u), u = c (a + k a^3): (1 - t^2) (u' + a u'' / 2 - a t u'^2).
      constexpr double kCube = 0.044715;
      const double c = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
      const Value square = a * a;
      const Value t = (c * (a + kCube * (square * a))).apply(PointOp::tanh);
      const Value slope = c * (3 * kCube * square + 1.0);
      return (1.0 - t * t) * (slope + 3 * c * kCube * square - a * t * (slope * slope));
    }
    case PointOp::silu_derivative: {
      const Value s = a.apply(PointOp::sigmoid);
      return s * (1.0 - s) * (a * (1.0 - 2.0 * s) + 2.0);
    }
    default:
      throw Error("a pointwise instruction has no derivative");
  }
}

}  // namespace

PointwiseCode gradient_code(const PointwiseCode& code, const std::vector<bool>& has_gradient) {
  int gradients = 0;
  for (bool has : has_gradient) gradients += has;
  Differentiator differentiator(code, gradients);
  int input = 0;
  for (std::size_t s = 0; s < has_gradient.size(); ++s)
    if (has_gradient[s]) differentiator.seed(code.stores[s], input++);
  return differentiator.run();
}

}  // namespace tessera::ops
