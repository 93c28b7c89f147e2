// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/pointwise.hpp"
#include "kernels/portable_math.hpp"

namespace tessera::kernels {
namespace {

using program::PointOp;

template <class T>
KOKKOS_INLINE_FUNCTION T load_input(const PointInput& input, std::int64_t at) {
  switch (input.element) {
    case kElementF64:
      return static_cast<T>(static_cast<const double*>(input.data)[at]);
    case kElementBf16:
      return static_cast<T>(to_float(static_cast<const Bf16*>(input.data)[at]));
    case kElementI32:
      return static_cast<T>(static_cast<const std::int32_t*>(input.data)[at]);
    default:
      return static_cast<T>(static_cast<const float*>(input.data)[at]);
  }
}

template <class T>
KOKKOS_INLINE_FUNCTION void store_output(const PointOutput& output, std::int64_t at, T x) {
  switch (output.element) {
    case kElementF64:
      static_cast<double*>(output.data)[at] = static_cast<double>(x);
      break;
    case kElementBf16:
      static_cast<Bf16*>(output.data)[at] = to_bf16(static_cast<float>(x));
      break;
    case kElementI32:
      static_cast<std::int32_t*>(output.data)[at] = static_cast<std::int32_t>(x);
      break;
    default:
      static_cast<float*>(output.data)[at] = static_cast<float>(x);
  }
}

/// x s and its derivative s + x s (1 - s) slope, where s is the sigmoid of something of that slope;
/// where s is 0 the product is its limit.
template <class T>
KOKKOS_INLINE_FUNCTION T gated(T x, T s) {
  return s == T(0) ? -T(0) : x * s;
}
template <class T>
KOKKOS_INLINE_FUNCTION T gated_derivative(T x, T s, T slope) {
  return s == T(0) ? -T(0) : s + x * s * (T(1) - s) * slope;
}

template <class T>
KOKKOS_INLINE_FUNCTION T gelu_gate(T x) {
  return portable::sigmoid(T(1.5957691216057308) * x * (T(1) + T(0.044715) * x * x));
}

template <class T>
KOKKOS_INLINE_FUNCTION T normal_distribution(T x) {
  return T(0.5) * portable::complement(-x * T(0.70710678118654752));
}

template <class T>
KOKKOS_INLINE_FUNCTION T gelu(T x) {
  return x < T(-40) ? -T(0) : x * normal_distribution(x);
}

template <class T>
KOKKOS_INLINE_FUNCTION T gelu_derivative(T x) {
  const T density = T(0.39894228040143268) * portable::exponential(T(-0.5) * x * x);
  return x < T(-40) ? -T(0) : normal_distribution(x) + x * density;
}

template <class T>
KOKKOS_INLINE_FUNCTION T evaluate(PointOp op, T a, T b, T c) {
  switch (op) {
    case PointOp::constant:
      return T(0);  // the caller's business
    case PointOp::copy:
      return a;
    case PointOp::add:
      return a + b;
    case PointOp::subtract:
      return a - b;
    case PointOp::multiply:
      return a * b;
    case PointOp::divide:
      return a / b;
    case PointOp::minimum:
      return a < b || a != a ? a : b;
    case PointOp::maximum:
      return a > b || a != a ? a : b;
    case PointOp::negate:
      return -a;
    case PointOp::absolute:
      return portable::absolute(a);
    case PointOp::square:
      return a * a;
    case PointOp::sqrt:
      return portable::square_root(a);
    case PointOp::rsqrt:
      return T(1) / portable::square_root(a);
    case PointOp::reciprocal:
      return T(1) / a;
    case PointOp::exp:
      return portable::exponential(a);
    case PointOp::log:
      return portable::logarithm(a);
    case PointOp::sin:
      return portable::sine(a);
    case PointOp::cos:
      return portable::cosine(a);
    case PointOp::tanh:
      return portable::hyperbolic_tangent(a);
    case PointOp::erf:
      return portable::error_function(a);
    case PointOp::sigmoid:
      return portable::sigmoid(a);
    case PointOp::power:
      return portable::power(a, b);
    case PointOp::relu:
      return a < T(0) ? T(0) : a;
    case PointOp::relu_derivative:
      return a > T(0) ? T(1) : T(0);
    case PointOp::gelu:
      return gelu(a);
    case PointOp::gelu_derivative:
      return gelu_derivative(a);
    case PointOp::gelu_tanh:
      return gated(a, gelu_gate(a));
    case PointOp::gelu_tanh_derivative:
      return gated_derivative(a, gelu_gate(a),
                              T(1.5957691216057308) * (T(1) + T(3 * 0.044715) * a * a));
    case PointOp::silu:
      return gated(a, portable::sigmoid(a));
    case PointOp::silu_derivative:
      return gated_derivative(a, portable::sigmoid(a), T(1));
    case PointOp::less:
      return a < b ? T(1) : T(0);
    case PointOp::equal:
      return a == b ? T(1) : T(0);
    case PointOp::select:
      return a != T(0) ? b : c;
    case PointOp::multiply_add:
      return a * b + c;
    case PointOp::is_finite:
      return a - a == T(0) ? T(1) : T(0);
    case PointOp::floor:
      return portable::round_down(a);
  }
  return T(0);
}

/// The whole code for one element.
template <class T>
KOKKOS_INLINE_FUNCTION void run_element(const PointPlan& plan, std::int64_t index) {
  T reg[program::kMaxRegisters];
  std::int64_t at[program::kMaxInputs] = {};
  std::int64_t rest = index;
  for (int d = plan.rank - 1; d >= 0; --d) {
    const std::int64_t i = rest % plan.extent[d];
    rest /= plan.extent[d];
    for (int k = 0; k < plan.inputs; ++k) at[k] += i * plan.input[k].stride[d];
  }
  for (int k = 0; k < plan.inputs; ++k) reg[k] = load_input<T>(plan.input[k], at[k]);
  for (int i = 0; i < plan.instructions; ++i) {
    const PointInstruction& code = plan.code[i];
    // Not code.op(): that is a host function.
    const auto op = static_cast<PointOp>(code.code);
    if (op == PointOp::constant) {
      reg[code.to] = static_cast<T>(plan.constant[code.a]);
    } else {
      reg[code.to] = evaluate(op, reg[code.a], code.reads > 1 ? reg[code.b] : T(0),
                              code.reads > 2 ? reg[code.c] : T(0));
    }
  }
  for (int k = 0; k < plan.outputs; ++k) {
    store_output(plan.output[k], index, reg[plan.output[k].reg]);
  }
}

template <class T>
void run(const device::Exec& exec, const PointPlan& plan) {
  device::for_each_index(
      "tessera::kernels::pointwise", exec, plan.size,
      KOKKOS_LAMBDA(std::int64_t index) { run_element<T>(plan, index); });
}

}  // namespace

void pointwise_portable(const device::Exec& exec, const PointPlan& plan) {
  if (computes_in_double(plan)) {
    run<double>(exec, plan);
  } else {
    run<float>(exec, plan);
  }
}

}  // namespace tessera::kernels
