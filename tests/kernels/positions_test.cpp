// SPDX-License-Identifier: BSD-3-Clause
#include <cmath>
#include <string>
#include <vector>

#include "kernels/support.hpp"
#include "support/catch.hpp"

using namespace tessera;
using test::TestTensor;

namespace {

double tolerance(DType dtype) {
  return dtype == DType::f64 ? 1e-12 : dtype == DType::f32 ? 1e-6 : 0.01;
}

Attributes rotary(std::int64_t inverse) {
  return {{"length_dim", std::int64_t{1}}, {"base", 10000.0}, {"inverse", inverse}};
}

}  // namespace

TEST_CASE("rotary turns pairs by global positions, and back") {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    for (const std::int64_t d : {2, 8, 14}) {
      TestTensor x(dtype, {2, 5, 3, d}, {0, 1000, 0, 0}, {2, 4096, 3, d});
      x.fill([](std::int64_t i) { return std::sin(0.7 * static_cast<double>(i)); });
      test::for_each_variant([&](const std::string& variant) {
        INFO(variant << ", " << name_of(dtype) << ", d " << d);
        TestTensor y(x);
        test::run_kernel("rotary", rotary(0), {y.tile()}, {y.tile()});
        for (std::int64_t i = 0; i < x.size(); ++i) {
          const std::int64_t half = d / 2, pair = i % d % half, low = i - i % d + pair;
          const double position = static_cast<double>(1000 + i / d / 3 % 5);
          const double angle = position * std::pow(10000.0, -2.0 * static_cast<double>(pair) /
                                                                static_cast<double>(d));
          const double a = x.get(low), b = x.get(low + half);
          const double want = i % d < half ? a * std::cos(angle) - b * std::sin(angle)
                                           : a * std::sin(angle) + b * std::cos(angle);
          REQUIRE(std::fabs(y.get(i) - want) <= tolerance(dtype));
        }
        test::run_kernel("rotary", rotary(1), {y.tile()}, {y.tile()});
        for (std::int64_t i = 0; i < x.size(); ++i) {
          REQUIRE(std::fabs(y.get(i) - x.get(i)) <= 2 * tolerance(dtype));
        }
      });
    }
  }
  TestTensor none(DType::f32, {2, 0, 3, 4}, {0, 2, 0, 0}, {2, 5, 3, 4});
  test::for_each_variant([&](const std::string&) {
    test::run_kernel("rotary", rotary(0), {none.tile()}, {none.tile()});
  });
}

TEST_CASE("sinusoids have wavelengths from 2 pi to 20000 pi") {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    test::for_each_variant([&](const std::string& variant) {
      INFO(variant << ", " << name_of(dtype));
      // A tile of rows 3 .. 6 and columns 2 .. 8 of [40, 10].
      TestTensor y(dtype, {4, 7}, {3, 2}, {40, 10});
      test::run_kernel("sinusoid", {}, {}, {y.tile()});
      for (std::int64_t i = 0; i < y.size(); ++i) {
        const double position = static_cast<double>(3 + i / 7);
        const std::int64_t column = 2 + i % 7;
        const double wavelength =
            2 * M_PI * std::pow(10000.0, static_cast<double>(column % 5) / 4.0);
        const double angle = 2 * M_PI * position / wavelength;
        const double want = column < 5 ? std::sin(angle) : std::cos(angle);
        REQUIRE(std::fabs(y.get(i) - want) <= tolerance(dtype));
      }
    });
  }
}
