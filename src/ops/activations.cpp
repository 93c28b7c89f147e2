// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/ops/activations.hpp"

#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/install.hpp"
#include "tessera/ops/pointwise.hpp"

namespace tessera::ops {
namespace {

/// scale x where x > 0, else scale alpha (e^x - 1).
Tensor exponential_unit(Tensor x, double scale, double alpha, const char* name) {
  return pointwise1({x},
                    [=](auto in) {
                      const Value zero = in[0].constant(0);
                      // e^v - 1 = 2 t / (1 - t) with t = tanh(v/2) does not cancel near 0; v is
                      // kept at 0 where the other branch counts, so that no infinity meets the
                      // gradient.
                      const Value t =
                          (0.5 * in[0].apply(PointOp::minimum, zero)).apply(PointOp::tanh);
                      const Value below = scale * alpha * 2.0 * (t / (1.0 - t));
                      return select(zero.apply(PointOp::less, in[0]), scale * in[0], below);
                    },
                    {.shape = {}, .dtypes = {}, .name = name});
}

/// The code's own derivative would divide what cancels; this one is exact.
class Softplus : public Pointwise {
 public:
  using Pointwise::Pointwise;
  std::vector<Tensor> gradient(std::span<const Tensor> inputs, std::span<const Tensor>,
                               std::span<const Tensor> output_gradients) const override {
    return {pointwise1({inputs[0], output_gradients[0]},
                       [](auto in) { return in[1] * in[0].apply(PointOp::sigmoid); },
                       {.shape = inputs[0].shape(), .dtypes = {inputs[0].dtype()}, .name = ""})};
  }
};

/// max(x, 0) + log(1 + e), e = exp(-|x|): log(u) e / (u - 1) with the rounded u = 1 + e gives back
/// what rounding lost (Kahan; Higham, "Accuracy and Stability of Numerical Algorithms", 1.14.1).
PointwiseCode softplus_code() {
  PointwiseCode code(1);
  const Value x(&code, 0), zero = x.constant(0);
  const Value e = (-x.apply(PointOp::absolute)).apply(PointOp::exp);
  const Value u = e + 1.0;
  const Value excess = u - u.constant(1);
  const Value log = select(excess, u.apply(PointOp::log) * e / excess, e);
  code.stores = {(x.apply(PointOp::maximum, zero) + log).reg()};
  return code;
}

}  // namespace

Tensor leaky_relu(Tensor x, double slope) {
  return pointwise1({x},
                    [=](auto in) {
                      return select(in[0].constant(0).apply(PointOp::less, in[0]), in[0],
                                    slope * in[0]);
                    },
                    {.shape = {}, .dtypes = {}, .name = "leaky_relu"});
}

Tensor elu(Tensor x, double alpha) {
  return exponential_unit(x, 1, alpha, "elu");
}

Tensor selu(Tensor x) {
  return exponential_unit(x, 1.0507009873554805, 1.6732632423543772, "selu");
}

Tensor softplus(Tensor x) {
  install();
  return x.graph().add1(
      std::make_shared<Softplus>(softplus_code(), x.shape(), std::vector<DType>{x.dtype()}), {x},
      "softplus");
}

}  // namespace tessera::ops
