// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/ops/pointwise_code.hpp"

#include <cmath>

#include "support/catch.hpp"

using namespace tessera;
using ops::PointOp;
using ops::PointwiseCode;
using ops::Value;

namespace {

/// code of out = f(inputs).
template <class F>
PointwiseCode code_of(int inputs, F f) {
  PointwiseCode code(inputs);
  std::vector<Value> values;
  for (int i = 0; i < inputs; ++i) values.emplace_back(&code, i);
  code.stores = {f(values).reg()};
  return code;
}

/// Runs encoded kernel code on scalars: what the kernels' contract says of the few ops used here.
double run(const PointwiseCode& code, std::vector<double> registers) {
  const Attributes attributes = code.encode();
  const auto& words = attributes.integers("code");
  registers.resize(program::kMaxRegisters);
  for (std::size_t k = 0; k < words.size(); k += 5) {
    const auto r = [&](std::size_t i) { return registers[static_cast<std::size_t>(words[k + i])]; };
    double& to = registers[static_cast<std::size_t>(words[k + 1])];
    switch (static_cast<PointOp>(words[k])) {
      case PointOp::constant:
        to = attributes.real("c" + std::to_string(words[k + 2]));
        break;
      case PointOp::add:
        to = r(2) + r(3);
        break;
      case PointOp::subtract:
        to = r(2) - r(3);
        break;
      case PointOp::multiply:
        to = r(2) * r(3);
        break;
      case PointOp::exp:
        to = std::exp(r(2));
        break;
      case PointOp::select:
        to = r(2) != 0 ? r(3) : r(4);
        break;
      default:
        FAIL("unexpected instruction " << words[k]);
    }
  }
  return registers[static_cast<std::size_t>(attributes.integers("stores")[0])];
}

}  // namespace

TEST_CASE("equal instructions are computed once, trivial ones not at all") {
  const auto code = code_of(2, [](const auto& in) {
    return (in[0] + in[1]) * (in[0] + in[1]) * in[0].constant(1) + 0.0;
  });
  CHECK(code.pruned().instructions().size() == 2);  // one sum, one product
  CHECK(run(code, {2, 3}) == 25);
}

TEST_CASE("codes are joined by renumbering") {
  const auto sum = code_of(2, [](const auto& in) { return in[0] + 2.0 * in[1]; });
  const auto square = code_of(1, [](const auto& in) { return in[0] * in[0]; });
  PointwiseCode joint(3);
  const auto inner = joint.inline_code(sum, {2, 0});
  joint.stores = joint.inline_code(square, {inner[0]});
  CHECK(run(joint, {5, 99, 1}) == 121);
  CHECK(joint.used_inputs() == std::vector<bool>{true, false, true});
  const auto narrow = joint.with_inputs({2, 0});
  CHECK(narrow.inputs() == 2);
  CHECK(run(narrow, {1, 5}) == 121);
}

TEST_CASE("registers of dead values are used again, the inputs' never") {
  // A sum of 50 terms needs two registers beside the input.
  const auto code = code_of(1, [](const auto& in) {
    Value total = in[0] * in[0];
    for (int i = 0; i < 50; ++i) total = total + (i + 2.0) * in[0];
    return total;
  });
  REQUIRE(code.registers() > program::kMaxRegisters);
  CHECK(code.fits());
  const auto words = code.encode().integers("code");
  for (std::size_t k = 0; k < words.size(); k += 5) CHECK(words[k + 1] >= 1);
  CHECK(run(code, {1}) == 1 + 50 * 2 + 49 * 50 / 2);
}

TEST_CASE("what is linear in partial inputs is told from what is not") {
  const auto linear = [](int inputs, std::vector<bool> flagged, auto f) {
    return code_of(inputs, f).is_linear_in(flagged);
  };
  const auto sum = [](const auto& in) { return in[0] + in[1]; };
  CHECK(linear(2, {true, true}, sum));
  CHECK_FALSE(linear(2, {true, false}, sum));  // the replicated term would be added on every rank
  const auto product = [](const auto& in) { return -(3.0 * in[0]) * in[1]; };
  CHECK(linear(2, {true, false}, product));
  CHECK(linear(2, {false, true}, product));
  CHECK_FALSE(linear(2, {true, true}, product));
  CHECK(linear(2, {true, false}, [](const auto& in) { return in[0] / in[1]; }));
  CHECK_FALSE(linear(2, {false, true}, [](const auto& in) { return in[0] / in[1]; }));
  const auto masked = [](const auto& in) { return select(in[1], in[0], in[0].constant(0)); };
  CHECK(linear(2, {true, false}, masked));
  CHECK_FALSE(linear(2, {false, true}, masked));
  const auto shifted = [](const auto& in) { return select(in[1], in[0], in[0].constant(1)); };
  CHECK_FALSE(linear(2, {true, false}, shifted));
  CHECK_FALSE(linear(1, {true}, [](const auto& in) { return in[0].apply(PointOp::exp); }));
  CHECK_FALSE(linear(1, {true}, [](const auto& in) { return in[0] + 1.0; }));
}

TEST_CASE("the gradient's code repeats what it needs of the forward code") {
  // d/da (a exp(b)) = exp(b), d/db = a exp(b); both times the result's gradient.
  const auto code = code_of(2, [](const auto& in) { return in[0] * in[1].apply(PointOp::exp); });
  auto gradient = ops::gradient_code(code, {true});
  REQUIRE(gradient.stores.size() == 2);
  const auto stores = gradient.stores;
  gradient.stores = {stores[0]};
  CHECK(run(gradient, {2, 0.5, 3}) == Approx(3 * std::exp(0.5)));
  gradient.stores = {stores[1]};
  CHECK(run(gradient, {2, 0.5, 3}) == Approx(3 * 2 * std::exp(0.5)));
}

TEST_CASE("inputs that the result does not depend on have no gradient") {
  const auto code = code_of(2, [](const auto& in) { return in[0] * in[0]; });
  CHECK(ops::gradient_code(code, {true}).stores[1] == -1);
}
