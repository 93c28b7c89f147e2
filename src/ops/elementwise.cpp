// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/ops/elementwise.hpp"

#include "tessera/base/error.hpp"
#include "tessera/ops/fill.hpp"
#include "tessera/ops/install.hpp"
#include "tessera/ops/pointwise.hpp"

namespace tessera::ops {
namespace {

Tensor unary(PointOp op, Tensor x, const char* name) {
  return pointwise1({x}, [&](std::span<const Value> in) { return in[0].apply(op); },
                    {.shape = {}, .dtypes = {}, .name = name});
}

Tensor binary(PointOp op, Tensor a, Tensor b, const char* name) {
  return pointwise1({a, b}, [&](std::span<const Value> in) { return in[0].apply(op, in[1]); },
                    {.shape = {}, .dtypes = {}, .name = name});
}

Tensor with_constant(PointOp op, Tensor a, double b, const char* name) {
  return pointwise1({a},
                    [&](std::span<const Value> in) { return in[0].apply(op, in[0].constant(b)); },
                    {.shape = {}, .dtypes = {}, .name = name});
}

/// A copy through which no gradient passes.
class StopGradient : public Pointwise {
 public:
  using Pointwise::Pointwise;
  std::vector<Tensor> gradient(std::span<const Tensor> inputs, std::span<const Tensor>,
                               std::span<const Tensor>) const override {
    return std::vector<Tensor>(inputs.size());
  }
};

PointwiseCode identity_code() {
  PointwiseCode code(1);
  code.stores = {0};
  return code;
}

}  // namespace

Tensor add(Tensor a, Tensor b) {
  return binary(PointOp::add, a, b, "add");
}
Tensor add(Tensor a, double b) {
  return with_constant(PointOp::add, a, b, "add");
}
Tensor subtract(Tensor a, Tensor b) {
  return binary(PointOp::subtract, a, b, "subtract");
}
Tensor multiply(Tensor a, Tensor b) {
  return binary(PointOp::multiply, a, b, "multiply");
}
Tensor multiply(Tensor a, double b) {
  return with_constant(PointOp::multiply, a, b, "multiply");
}
Tensor divide(Tensor a, Tensor b) {
  return binary(PointOp::divide, a, b, "divide");
}
Tensor minimum(Tensor a, Tensor b) {
  return binary(PointOp::minimum, a, b, "minimum");
}
Tensor maximum(Tensor a, Tensor b) {
  return binary(PointOp::maximum, a, b, "maximum");
}
Tensor power(Tensor a, Tensor b) {
  return binary(PointOp::power, a, b, "power");
}
Tensor power(Tensor a, double b) {
  return with_constant(PointOp::power, a, b, "power");
}
Tensor floor_divide(Tensor a, Tensor b) {
  return pointwise1({a, b}, [](auto in) { return (in[0] / in[1]).apply(PointOp::floor); },
                    {.shape = {}, .dtypes = {}, .name = "floor_divide"});
}
Tensor modulo(Tensor a, Tensor b) {
  return pointwise1({a, b},
                    [](auto in) { return in[0] - in[1] * (in[0] / in[1]).apply(PointOp::floor); },
                    {.shape = {}, .dtypes = {}, .name = "modulo"});
}
Tensor less(Tensor a, Tensor b) {
  return binary(PointOp::less, a, b, "less");
}
Tensor equal(Tensor a, Tensor b) {
  return binary(PointOp::equal, a, b, "equal");
}
Tensor where(Tensor condition, Tensor a, Tensor b) {
  Shape shape = a.shape().united(b.shape()).united(condition.shape());
  const DType dtype = result_dtype({a, b}, shape);
  return pointwise1({condition, a, b},
                    [](std::span<const Value> in) { return select(in[0], in[1], in[2]); },
                    {.shape = shape, .dtypes = {dtype}, .name = "where"});
}

Tensor add_n(const std::vector<Tensor>& terms) {
  TESSERA_CHECK(!terms.empty(), "a sum of no tensors");
  std::vector<Tensor> level = terms;
  while (level.size() > 1) {
    std::vector<Tensor> next;
    for (std::size_t i = 0; i < level.size(); i += program::kMaxInputs) {
      const std::size_t end = std::min(level.size(), i + program::kMaxInputs);
      const std::vector<Tensor> group(level.begin() + static_cast<std::ptrdiff_t>(i),
                                      level.begin() + static_cast<std::ptrdiff_t>(end));
      const auto sum = [](std::span<const Value> in) {
        Value total = in[0];
        for (std::size_t k = 1; k < in.size(); ++k) total = total + in[k];
        return total;
      };
      next.push_back(group.size() == 1
                         ? group[0]
                         : pointwise1(group, sum, {.shape = {}, .dtypes = {}, .name = "add"}));
    }
    level = std::move(next);
  }
  return level[0];
}

Tensor is_finite(Tensor x) {
  return unary(PointOp::is_finite, x, "is_finite");
}
Tensor negate(Tensor x) {
  return unary(PointOp::negate, x, "negate");
}
Tensor absolute(Tensor x) {
  return unary(PointOp::absolute, x, "absolute");
}
Tensor sign(Tensor x) {
  return pointwise1(
      {x},
      [](auto in) {
        const Value zero = in[0].constant(0);
        return select(zero.apply(PointOp::less, in[0]), in[0].constant(1),
                      select(in[0].apply(PointOp::less, zero), in[0].constant(-1), 0.0 * in[0]));
      },
      {.shape = {}, .dtypes = {}, .name = "sign"});
}
Tensor floor(Tensor x) {
  return unary(PointOp::floor, x, "floor");
}
Tensor square(Tensor x) {
  return unary(PointOp::square, x, "square");
}
Tensor sqrt(Tensor x) {
  return unary(PointOp::sqrt, x, "sqrt");
}
Tensor rsqrt(Tensor x) {
  return unary(PointOp::rsqrt, x, "rsqrt");
}
Tensor reciprocal(Tensor x) {
  return unary(PointOp::reciprocal, x, "reciprocal");
}
Tensor exp(Tensor x) {
  return unary(PointOp::exp, x, "exp");
}
Tensor log(Tensor x) {
  return unary(PointOp::log, x, "log");
}
Tensor sin(Tensor x) {
  return unary(PointOp::sin, x, "sin");
}
Tensor cos(Tensor x) {
  return unary(PointOp::cos, x, "cos");
}
Tensor tanh(Tensor x) {
  return unary(PointOp::tanh, x, "tanh");
}
Tensor erf(Tensor x) {
  return unary(PointOp::erf, x, "erf");
}
Tensor sigmoid(Tensor x) {
  return unary(PointOp::sigmoid, x, "sigmoid");
}
Tensor relu(Tensor x) {
  return unary(PointOp::relu, x, "relu");
}
Tensor gelu(Tensor x) {
  return unary(PointOp::gelu, x, "gelu");
}
Tensor gelu_tanh(Tensor x) {
  return unary(PointOp::gelu_tanh, x, "gelu_tanh");
}
Tensor silu(Tensor x) {
  return unary(PointOp::silu, x, "silu");
}

Tensor cast(Tensor x, DType dtype) {
  if (x.dtype() == dtype) return x;
  return pointwise1({x}, [](std::span<const Value> in) { return in[0]; },
                    {.shape = {}, .dtypes = {dtype}, .name = "cast"});
}

Tensor broadcast(Tensor x, const Shape& shape) {
  if (x.shape() == shape) return x;
  return pointwise1({x}, [](std::span<const Value> in) { return in[0]; },
                    {.shape = shape, .dtypes = {x.dtype()}, .name = "broadcast"});
}

Tensor stop_gradient(Tensor x) {
  install();
  return x.graph().add1(
      std::make_shared<StopGradient>(identity_code(), x.shape(), std::vector<DType>{x.dtype()}),
      {x}, "stop_gradient");
}

Tensor fill(Graph& graph, double value, const TensorSpec& spec) {
  install();
  return graph.add1(std::make_shared<Fill>(value, spec), {}, "fill");
}

void install() {
  set_gradient_sum([](Graph&, const std::vector<Tensor>& terms) { return add_n(terms); });
  set_difference([](Tensor a, Tensor b) { return subtract(a, b); });
  set_gradient_ones([](Graph& graph, const TensorSpec& spec) { return fill(graph, 1, spec); });
}

}  // namespace tessera::ops
