// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "kernels/isa/element.hpp"
#include "kernels/pointwise_plan.hpp"

// One loop for each instruction of `pointwise` and each choice of operands (a vector, or a scalar
// that all elements share).
namespace tessera::kernels::isa::TESSERA_ISA {

using program::PointOp;

/// to[i] = f(a[i], b[i], c[i]); `to` may be exactly one of the operands.
using Loop = void (*)(void* to, const void* a, const void* b, const void* c, int64_t n);

TESSERA_LANE float round_down(float x) {
  return __builtin_floorf(x);
}
TESSERA_LANE double round_down(double x) {
  return __builtin_floor(x);
}

#define TESSERA_POINT_OP(Name, expression)                                                        \
  struct Name {                                                                                   \
    template <class T>                                                                            \
    static inline __attribute__((always_inline)) T of([[maybe_unused]] T a, [[maybe_unused]] T b, \
                                                      [[maybe_unused]] T c) {                     \
      return expression;                                                                          \
    }                                                                                             \
  };

TESSERA_POINT_OP(Add, a + b)
TESSERA_POINT_OP(Subtract, a - b)
TESSERA_POINT_OP(Multiply, a* b)
TESSERA_POINT_OP(Divide, a / b)
// A NaN in either operand is the result.
TESSERA_POINT_OP(Minimum, (a < b) | (a != a) ? a : b)
TESSERA_POINT_OP(Maximum, (a > b) | (a != a) ? a : b)
TESSERA_POINT_OP(Negate, -a)
TESSERA_POINT_OP(Absolute, absolute(a))
TESSERA_POINT_OP(Square, a* a)
TESSERA_POINT_OP(Sqrt, square_root(a))
TESSERA_POINT_OP(Rsqrt, T(1) / square_root(a))
TESSERA_POINT_OP(Reciprocal, T(1) / a)
TESSERA_POINT_OP(Exp, exp(a))
TESSERA_POINT_OP(Log, log(a))
TESSERA_POINT_OP(Tanh, tanh(a))
TESSERA_POINT_OP(Erf, erf(a))
TESSERA_POINT_OP(Sigmoid, sigmoid(a))
TESSERA_POINT_OP(Power, power(a, b))
TESSERA_POINT_OP(Relu, a < T(0) ? T(0) : a)
TESSERA_POINT_OP(ReluDerivative, a > T(0) ? T(1) : T(0))
TESSERA_POINT_OP(Gelu, gelu(a))
TESSERA_POINT_OP(GeluDerivative, gelu_derivative(a))
TESSERA_POINT_OP(GeluTanh, gelu_tanh(a))
TESSERA_POINT_OP(GeluTanhDerivative, gelu_tanh_derivative(a))
TESSERA_POINT_OP(Silu, silu(a))
TESSERA_POINT_OP(SiluDerivative, silu_derivative(a))
TESSERA_POINT_OP(Less, a < b ? T(1) : T(0))
TESSERA_POINT_OP(Equal, a == b ? T(1) : T(0))
TESSERA_POINT_OP(Select, a != T(0) ? b : c)
TESSERA_POINT_OP(MultiplyAdd, a* b + c)
TESSERA_POINT_OP(IsFinite, absolute(a) < T(__builtin_inf()) ? T(1) : T(0))
TESSERA_POINT_OP(Floor, round_down(a))

/// Whether each operand is a vector (1) or a scalar (0).
template <class T, class Op, int A, int B, int C>
static void run(void* to, const void* a, const void* b, const void* c, int64_t n) {
  T* out = static_cast<T*>(to);
  const T* va = static_cast<const T*>(a);
  const T* vb = static_cast<const T*>(b);
  const T* vc = static_cast<const T*>(c);
  const T sa = A == 0 ? *va : T(0);
  const T sb = B == 0 && b != nullptr ? *vb : T(0);
  const T sc = C == 0 && c != nullptr ? *vc : T(0);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    out[i] = Op::of(A == 1 ? va[i] : sa, B == 1 ? vb[i] : sb, C == 1 ? vc[i] : sc);
  }
}

/// Sine or cosine (quarter 1); angles beyond the fast reduction go to the C library.
template <class T, int Quarter>
static void run_sine(void* to, const void* a, const void*, const void*, int64_t n) {
  T* out = static_cast<T*>(to);
  const T* in = static_cast<const T*>(a);
  int slow = sizeof(T) == 8 ? 1 : 0;
  for (int64_t i = 0; i < n; ++i) slow |= absolute(in[i]) < T(1.0e9) ? 0 : 1;
  if (slow != 0) {
    for (int64_t i = 0; i < n; ++i) {
      out[i] = static_cast<T>(Quarter == 1 ? __builtin_cos(in[i]) : __builtin_sin(in[i]));
    }
    return;
  }
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) out[i] = sine_quarter(static_cast<float>(in[i]), Quarter);
}

template <class T, class Op>
static Loop unary() {
  return &run<T, Op, 1, 0, 0>;
}

/// `vectors`: bit 0 for a, 1 for b, 2 for c. All scalars run as vectors of one element.
template <class T, class Op>
static Loop binary(int vectors) {
  switch (vectors & 3) {
    case 1:
      return &run<T, Op, 1, 0, 0>;
    case 2:
      return &run<T, Op, 0, 1, 0>;
    default:
      return &run<T, Op, 1, 1, 0>;
  }
}

template <class T, class Op>
static Loop ternary(int vectors) {
  switch (vectors & 7) {
    case 1:
      return &run<T, Op, 1, 0, 0>;
    case 2:
      return &run<T, Op, 0, 1, 0>;
    case 3:
      return &run<T, Op, 1, 1, 0>;
    case 4:
      return &run<T, Op, 0, 0, 1>;
    case 5:
      return &run<T, Op, 1, 0, 1>;
    case 6:
      return &run<T, Op, 0, 1, 1>;
    default:
      return &run<T, Op, 1, 1, 1>;
  }
}

/// The loop of an instruction; null for `constant` and `copy`, which need none.
template <class T>
static Loop loop_of(PointOp op, int vectors) {
  switch (op) {
    case PointOp::constant:
    case PointOp::copy:
      return nullptr;
    case PointOp::add:
      return binary<T, Add>(vectors);
    case PointOp::subtract:
      return binary<T, Subtract>(vectors);
    case PointOp::multiply:
      return binary<T, Multiply>(vectors);
    case PointOp::divide:
      return binary<T, Divide>(vectors);
    case PointOp::minimum:
      return binary<T, Minimum>(vectors);
    case PointOp::maximum:
      return binary<T, Maximum>(vectors);
    case PointOp::negate:
      return unary<T, Negate>();
    case PointOp::absolute:
      return unary<T, Absolute>();
    case PointOp::square:
      return unary<T, Square>();
    case PointOp::sqrt:
      return unary<T, Sqrt>();
    case PointOp::rsqrt:
      return unary<T, Rsqrt>();
    case PointOp::reciprocal:
      return unary<T, Reciprocal>();
    case PointOp::exp:
      return unary<T, Exp>();
    case PointOp::log:
      return unary<T, Log>();
    case PointOp::sin:
      return &run_sine<T, 0>;
    case PointOp::cos:
      return &run_sine<T, 1>;
    case PointOp::tanh:
      return unary<T, Tanh>();
    case PointOp::erf:
      return unary<T, Erf>();
    case PointOp::sigmoid:
      return unary<T, Sigmoid>();
    case PointOp::power:
      return binary<T, Power>(vectors);
    case PointOp::relu:
      return unary<T, Relu>();
    case PointOp::relu_derivative:
      return unary<T, ReluDerivative>();
    case PointOp::gelu:
      return unary<T, Gelu>();
    case PointOp::gelu_derivative:
      return unary<T, GeluDerivative>();
    case PointOp::gelu_tanh:
      return unary<T, GeluTanh>();
    case PointOp::gelu_tanh_derivative:
      return unary<T, GeluTanhDerivative>();
    case PointOp::silu:
      return unary<T, Silu>();
    case PointOp::silu_derivative:
      return unary<T, SiluDerivative>();
    case PointOp::less:
      return binary<T, Less>(vectors);
    case PointOp::equal:
      return binary<T, Equal>(vectors);
    case PointOp::select:
      return ternary<T, Select>(vectors);
    case PointOp::multiply_add:
      return ternary<T, MultiplyAdd>(vectors);
    case PointOp::is_finite:
      return unary<T, IsFinite>();
    case PointOp::floor:
      return unary<T, Floor>();
  }
  return nullptr;
}

// Conversions between memory and registers.

TESSERA_LANE int32_t load(int32_t x) {
  return x;
}

TESSERA_LANE void narrow(float& to, double x) {
  to = static_cast<float>(x);
}
TESSERA_LANE void narrow(float& to, float x) {
  to = x;
}
TESSERA_LANE void narrow(double& to, double x) {
  to = x;
}
TESSERA_LANE void narrow(double& to, float x) {
  to = x;
}
TESSERA_LANE void narrow(Bf16& to, double x) {
  store(to, static_cast<float>(x));
}
TESSERA_LANE void narrow(Bf16& to, float x) {
  store(to, x);
}
TESSERA_LANE void narrow(int32_t& to, double x) {
  to = static_cast<int32_t>(x);
}
TESSERA_LANE void narrow(int32_t& to, float x) {
  to = static_cast<int32_t>(x);
}

/// Contiguous elements of memory into a register; a stride may stand behind b.
template <class T, class E>
static void run_load(void* to, const void* a, const void* b, const void*, int64_t n) {
  T* out = static_cast<T*>(to);
  const E* in = static_cast<const E*>(a);
  if (b == nullptr) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(load(in[i]));
    return;
  }
  const int64_t stride = *static_cast<const int64_t*>(b);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(load(in[i * stride]));
}

template <class T, class E, int A>
static void run_store(void* to, const void* a, const void*, const void*, int64_t n) {
  E* out = static_cast<E*>(to);
  const T* in = static_cast<const T*>(a);
  const T scalar = *in;
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) narrow(out[i], A == 1 ? in[i] : scalar);
}

template <class T>
static Loop load_of(int element) {
  switch (element) {
    case kElementF64:
      return &run_load<T, double>;
    case kElementBf16:
      return &run_load<T, Bf16>;
    case kElementI32:
      return &run_load<T, int32_t>;
    default:
      return &run_load<T, float>;
  }
}

template <class T>
static Loop store_of(int element, bool vector) {
  switch (element) {
    case kElementF64:
      return vector ? &run_store<T, double, 1> : &run_store<T, double, 0>;
    case kElementBf16:
      return vector ? &run_store<T, Bf16, 1> : &run_store<T, Bf16, 0>;
    case kElementI32:
      return vector ? &run_store<T, int32_t, 1> : &run_store<T, int32_t, 0>;
    default:
      return vector ? &run_store<T, float, 1> : &run_store<T, float, 0>;
  }
}

}  // namespace tessera::kernels::isa::TESSERA_ISA
