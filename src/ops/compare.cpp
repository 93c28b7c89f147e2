// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/ops/compare.hpp"

#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/pointwise.hpp"

namespace tessera::ops {
namespace {

PointwiseOptions named(const char* name) {
  return {.shape = {}, .dtypes = {}, .name = name};
}

}  // namespace

Tensor greater(Tensor a, Tensor b) {
  // Not less(b, a): the result has the first operand's dims first.
  return pointwise1(
      {a, b}, [](auto in) { return in[1].apply(PointOp::less, in[0]); }, named("greater"));
}

Tensor less_equal(Tensor a, Tensor b) {
  return pointwise1(
      {a, b},
      [](auto in) {
        return in[0].apply(PointOp::less, in[1]) + in[0].apply(PointOp::equal, in[1]);
      },
      named("less_equal"));
}

Tensor greater_equal(Tensor a, Tensor b) {
  return pointwise1(
      {a, b},
      [](auto in) {
        return in[1].apply(PointOp::less, in[0]) + in[0].apply(PointOp::equal, in[1]);
      },
      named("greater_equal"));
}

Tensor not_equal(Tensor a, Tensor b) {
  return pointwise1(
      {a, b}, [](auto in) { return 1.0 - in[0].apply(PointOp::equal, in[1]); }, named("not_equal"));
}

Tensor logical_and(Tensor a, Tensor b) {
  return pointwise1(
      {a, b},
      [](auto in) {
        const Value yes = in[0].constant(1), no = in[0].constant(0);
        return select(in[0], select(in[1], yes, no), no);
      },
      named("logical_and"));
}

Tensor logical_or(Tensor a, Tensor b) {
  return pointwise1(
      {a, b},
      [](auto in) {
        const Value yes = in[0].constant(1), no = in[0].constant(0);
        return select(in[0], yes, select(in[1], yes, no));
      },
      named("logical_or"));
}

Tensor logical_not(Tensor x) {
  return pointwise1(
      {x}, [](auto in) { return select(in[0], in[0].constant(0), in[0].constant(1)); },
      named("logical_not"));
}

}  // namespace tessera::ops
