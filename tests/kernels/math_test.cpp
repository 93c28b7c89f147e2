// SPDX-License-Identifier: BSD-3-Clause
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "kernels/support.hpp"
#include "support/catch.hpp"
#include "tessera/program/pointwise_code.hpp"

// The vectorised functions of float against the C library's in double, over dense sweeps, by way of
// the pointwise kernel.

using namespace tessera;
using program::PointOp;
using test::TestTensor;

namespace {

using Numbers = std::vector<std::int64_t>;
using Function = std::function<double(double)>;

std::vector<double> apply(PointOp op, const TestTensor& x) {
  TestTensor y(x.tile().dtype, {x.size()});
  const Attributes attributes{{"code", Numbers{static_cast<std::int64_t>(op), 1, 0, 0, 0}},
                              {"stores", Numbers{1}},
                              {"map0", Numbers{0}}};
  test::run_kernel("pointwise", attributes, {x.tile()}, {y.tile()});
  return y.values();
}

/// Largest error over an even sweep, relative to `scale(result)`.
double worst(PointOp op, const Function& f, double low, double high, const Function& scale) {
  const std::int64_t n = 200000;
  TestTensor x(DType::f32, {n});
  x.fill([&](std::int64_t i) {
    return low + (high - low) * static_cast<double>(i) / static_cast<double>(n);
  });
  const std::vector<double> y = apply(op, x);
  double result = 0.0;
  for (std::int64_t i = 0; i < n; ++i) {
    const double want = f(x.get(i));
    const double error = std::fabs(y[static_cast<std::size_t>(i)] - want) / scale(want);
    if (!(error <= result)) result = error;  // a NaN counts
  }
  return result;
}

double ulp(double want) {
  const float narrow = std::fabs(static_cast<float>(want));
  return static_cast<double>(std::nextafter(narrow, HUGE_VALF)) - static_cast<double>(narrow);
}
double size(double want) {
  return std::fabs(want);
}
double one(double) {
  return 1.0;
}
double phi(double x) {
  return 0.5 * std::erfc(-x / std::sqrt(2.0));
}
double density(double x) {
  return std::exp(-x * x / 2) / std::sqrt(2 * M_PI);
}

}  // namespace

TEST_CASE("f32 functions are good to a few ulp") {
  test::for_each_variant([](const std::string& variant) {
    INFO(variant);
    const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
    CHECK(worst(
              PointOp::exp, [](double x) { return std::exp(x); }, -87.3, 88.7, ulp) < 2);
    CHECK(worst(
              PointOp::log, [](double x) { return std::log(x); }, 1e-3, 0.999, ulp) < 2);
    CHECK(worst(
              PointOp::log, [](double x) { return std::log(x); }, 1.0001, 1e6, ulp) < 2);
    CHECK(worst(
              PointOp::log, [](double x) { return std::log(x); }, 1e-37, 1e-30, ulp) < 2);
    CHECK(worst(
              PointOp::tanh, [](double x) { return std::tanh(x); }, -12, 12, ulp) < 3);
    CHECK(worst(
              PointOp::tanh, [](double x) { return std::tanh(x); }, 1e-6, 0.01, ulp) < 3);
    CHECK(worst(
              PointOp::erf, [](double x) { return std::erf(x); }, -6, 6, ulp) < 4);
    CHECK(worst(
              PointOp::erf, [](double x) { return std::erf(x); }, 1e-6, 0.01, ulp) < 4);
    CHECK(worst(PointOp::sigmoid, sigmoid, -86, 30, ulp) < 4);
    CHECK(worst(
              PointOp::sin, [](double x) { return std::sin(x); }, -3, 3, ulp) < 2);
    CHECK(worst(
              PointOp::sin, [](double x) { return std::sin(x); }, -1e5, 1e5, one) < 1e-7);
    CHECK(worst(
              PointOp::cos, [](double x) { return std::cos(x); }, -1e5, 1e5, one) < 1e-7);
    CHECK(worst(
              PointOp::sin, [](double x) { return std::sin(x); }, 1e20, 1e25, one) < 1e-6);
  });
}

TEST_CASE("gelu and its derivative keep their digits in the tails") {
  test::for_each_variant([](const std::string& variant) {
    INFO(variant);
    const auto gelu = [](double x) { return x * phi(x); };
    const auto derivative = [](double x) { return phi(x) + x * density(x); };
    // The portable variant rounds x / sqrt(2), which costs digits far out.
    CHECK(worst(PointOp::gelu, gelu, -12.5, -6, size) < (variant == "portable" ? 2e-5 : 2e-6));
    CHECK(worst(PointOp::gelu, gelu, -6, 8, size) < (variant == "portable" ? 3e-6 : 1e-6));
    CHECK(worst(PointOp::gelu, gelu, 1e-6, 1e-2, size) < 1e-6);
    CHECK(worst(PointOp::gelu_derivative, derivative, -6, 8, one) < 3e-7);
    CHECK(worst(PointOp::gelu_derivative, derivative, -0.6, 8, size) < 1e-5);
    CHECK(worst(PointOp::gelu_derivative, derivative, -12.5, -0.9, size) < 2e-5);
  });
}

TEST_CASE("silu and the tanh form of gelu") {
  test::for_each_variant([](const std::string& variant) {
    INFO(variant);
    const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
    const auto gate = [&](double x) {
      return sigmoid(2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
    };
    CHECK(worst(
              PointOp::silu, [&](double x) { return x * sigmoid(x); }, -80, 50, size) < 1e-6);
    CHECK(worst(
              PointOp::gelu_tanh, [&](double x) { return x * gate(x); }, -8, 8, one) < 1e-6);
    CHECK(worst(
              PointOp::silu_derivative,
              [&](double x) { return sigmoid(x) * (1 + x * (1 - sigmoid(x))); }, -30, 30,
              one) < 1e-6);
  });
}
