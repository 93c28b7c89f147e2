// SPDX-License-Identifier: BSD-3-Clause
#include <cmath>
#include <random>

#include "kernels/support.hpp"
#include "support/catch.hpp"

using namespace tessera;
using test::TestTensor;

namespace {

using Numbers = std::vector<std::int64_t>;

/// Pooling of tiles [batch, rows, cols, channels] that begin at the given rows.
struct Case {
  Numbers x, y, window, stride, before;
  std::int64_t batch = 2, channels = 5, x_begin = 0, y_begin = 0;

  TestTensor image(DType dtype, const Numbers& extent, std::int64_t begin) const {
    const Numbers shape{batch, extent[0], extent[1], channels};
    return TestTensor(dtype, shape, {0, begin, 0, 0}, shape);
  }
  Attributes attributes() const {
    return {{"batch", std::int64_t{1}}, {"window", window}, {"stride", stride}, {"before", before}};
  }
  /// Indices in x that output (b, i, j, c) covers, in order.
  Numbers covered(std::int64_t b, std::int64_t i, std::int64_t j, std::int64_t c) const {
    Numbers result;
    for (std::int64_t p = 0; p < window[0]; ++p)
      for (std::int64_t q = 0; q < window[1]; ++q) {
        const std::int64_t row = (i + y_begin) * stride[0] + p - before[0] - x_begin;
        const std::int64_t col = j * stride[1] + q - before[1];
        if (row < 0 || row >= x[0] || col < 0 || col >= x[1]) continue;
        result.push_back(((b * x[0] + row) * x[1] + col) * channels + c);
      }
    return result;
  }
};

std::vector<Case> cases() {
  Case window{{4, 7}, {2, 3}, {3, 3}, {2, 2}, {1, 0}};
  window.x_begin = 3, window.y_begin = 2;
  Case many{{5, 4}, {5, 4}, {3, 3}, {1, 1}, {1, 1}};
  many.channels = 70;
  Case none{{3, 4}, {0, 2}, {2, 2}, {2, 2}, {0, 0}};
  return {{{6, 8}, {3, 4}, {2, 2}, {2, 2}, {0, 0}},
          {{7, 5}, {7, 5}, {3, 3}, {1, 1}, {1, 1}},
          {{7, 9}, {4, 3}, {3, 2}, {2, 3}, {1, 0}},
          window,
          many,
          none};
}

double first_maximum(const TestTensor& x, const Numbers& covered, std::int64_t& at) {
  at = covered[0];
  for (const std::int64_t i : covered)
    if (x.get(i) > x.get(at)) at = i;
  return x.get(at);
}

void check(const TestTensor& found, const std::vector<double>& expected, double tolerance) {
  for (std::int64_t i = 0; i < found.size(); ++i)
    REQUIRE(std::abs(found.get(i) - expected[static_cast<std::size_t>(i)]) <= tolerance);
}

}  // namespace

TEST_CASE("pooling and its adjoints equal plain loops, ties going to the first") {
  for (const Case& c : cases()) {
    for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
      TestTensor x = c.image(dtype, c.x, c.x_begin), to_x = x, dx = x;
      TestTensor dy = c.image(dtype, c.y, c.y_begin), y = dy;
      std::mt19937 random(3);
      // Few values, so that windows have ties.
      for (TestTensor* t : {&x, &to_x, &dy})
        t->fill([&](auto) { return static_cast<double>(random() % 7) - 3; });
      const auto size_x = static_cast<std::size_t>(x.size());
      const auto size_y = static_cast<std::size_t>(y.size());
      std::vector<double> maxima(size_y), picked(size_y), means(size_y), scattered(size_x),
          shares(size_x);
      std::size_t out = 0;
      for (std::int64_t b = 0; b < c.batch; ++b)
        for (std::int64_t i = 0; i < c.y[0]; ++i)
          for (std::int64_t j = 0; j < c.y[1]; ++j)
            for (std::int64_t k = 0; k < c.channels; ++k, ++out) {
              const Numbers covered = c.covered(b, i, j, k);
              std::int64_t at;
              maxima[out] = first_maximum(x, covered, at);
              picked[out] = to_x.get(at);
              const double d = dy.get(static_cast<std::int64_t>(out));
              scattered[static_cast<std::size_t>(at)] += d;
              for (const std::int64_t place : covered) {
                means[out] += x.get(place) / static_cast<double>(covered.size());
                shares[static_cast<std::size_t>(place)] += d / static_cast<double>(covered.size());
              }
            }
      const double rounding = dtype == DType::f64 ? 1e-13 : dtype == DType::f32 ? 1e-5 : 0.05;
      test::for_each_variant([&](const std::string& variant) {
        INFO(variant << ", " << name_of(dtype) << ", " << c.attributes().to_string());
        const auto run = [&](const char* id, std::vector<kernels::Tile> inputs, TestTensor& to) {
          to.fill([](auto) { return std::nan(""); });
          test::run_kernel(id, c.attributes(), inputs, {to.tile()});
        };
        run("max_pool", {x.tile()}, y);
        check(y, maxima, 0);
        run("max_pool_gather", {x.tile(), to_x.tile()}, y);
        check(y, picked, 0);
        run("max_pool_scatter", {x.tile(), dy.tile()}, dx);
        check(dx, scattered, 0);
        run("average_pool", {x.tile()}, y);
        check(y, means, rounding);
        run("average_pool_scatter", {dy.tile()}, dx);
        check(dx, shares, rounding);
      });
    }
  }
}

TEST_CASE("a NaN is a window's maximum, and the first one gets the gradient") {
  const Case c{{1, 4}, {1, 1}, {1, 4}, {1, 1}, {0, 0}, 1, 1};
  TestTensor x = c.image(DType::f32, c.x, 0), dx = x;
  TestTensor y = c.image(DType::f32, c.y, 0), dy = y;
  x.fill([](std::int64_t i) { return i == 1 || i == 2 ? std::nan("") : 5.0 + double(i); });
  dy.fill([](auto) { return 2; });
  test::for_each_variant([&](const std::string& variant) {
    INFO(variant);
    test::run_kernel("max_pool", c.attributes(), {x.tile()}, {y.tile()});
    CHECK(std::isnan(y.get(0)));
    test::run_kernel("max_pool_scatter", c.attributes(), {x.tile(), dy.tile()}, {dx.tile()});
    check(dx, {0, 2, 0, 0}, 0);
  });
}
