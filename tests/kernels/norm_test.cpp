// SPDX-License-Identifier: BSD-3-Clause
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "kernels/support.hpp"
#include "support/catch.hpp"
#include "tessera/base/error.hpp"

using namespace tessera;
using test::TestTensor;

namespace {

using Numbers = std::vector<std::int64_t>;

struct Case {
  DType dtype;
  Numbers shape;
  int axis;
  bool rms, scale, bias;
  double epsilon = 1e-5;

  std::int64_t size() const { return shape[static_cast<std::size_t>(axis)]; }
  Numbers rows_shape() const {
    Numbers rows = shape;
    rows.erase(rows.begin() + axis);
    return rows;
  }
  std::int64_t inner() const {
    std::int64_t n = 1;
    for (std::size_t d = static_cast<std::size_t>(axis) + 1; d < shape.size(); ++d) n *= shape[d];
    return n;
  }
  std::int64_t rows() const {
    std::int64_t n = 1;
    for (const std::int64_t e : rows_shape()) n *= e;
    return n;
  }
  /// Place of element j of row r.
  std::int64_t at(std::int64_t r, std::int64_t j) const {
    return r / inner() * size() * inner() + j * inner() + r % inner();
  }
  DType statistics() const { return statistics_dtype(dtype); }
  Attributes attributes() const {
    return {{"axis", std::int64_t{axis}},
            {"epsilon", epsilon},
            {"rms", std::int64_t{rms}},
            {"scale", std::int64_t{scale}},
            {"bias", std::int64_t{bias}}};
  }
  std::string text() const {
    return concat(name_of(dtype), " axis ", axis, " of rank ", shape.size(), rms ? " rms" : "",
                  scale ? " scale" : "", bias ? " bias" : "");
  }
};

std::vector<Case> cases() {
  std::vector<Case> result;
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
    for (const bool rms : {false, true}) {
      for (const int parameters : {0, 1, 3}) {
        const bool scale = (parameters & 1) != 0, bias = (parameters & 2) != 0;
        result.push_back({dtype, {5, 3, 37}, 2, rms, scale, bias});
        result.push_back({dtype, {4, 6, 7}, 1, rms, scale, bias});
      }
    }
    result.push_back({dtype, {40, 1027}, 1, false, true, true});
    result.push_back({dtype, {9, 4}, 0, false, true, true});
    result.push_back({dtype, {0, 4}, 1, false, true, true});
  }
  return result;
}

struct Data {
  TestTensor x, dy, scale, bias;
  explicit Data(const Case& c)
      : x(c.dtype, c.shape),
        dy(c.dtype, c.shape),
        scale(c.dtype, {c.size()}),
        bias(c.dtype, {c.size()}) {
    std::mt19937 random(7);
    std::normal_distribution<double> normal(0.3, 1);
    for (TestTensor* t : {&x, &dy, &scale, &bias}) t->fill([&](auto) { return normal(random); });
  }
};

/// y of one row, in double, from any x.
std::vector<double> reference_row(const Case& c, const Data& d, const std::vector<double>& x) {
  const auto n = static_cast<double>(c.size());
  double mean = 0, variance = 0;
  for (const double v : x) mean += c.rms ? 0 : v / n;
  for (const double v : x) variance += (v - mean) * (v - mean) / n;
  std::vector<double> y;
  for (std::int64_t j = 0; j < c.size(); ++j) {
    const double normal = (x[static_cast<std::size_t>(j)] - mean) / std::sqrt(variance + c.epsilon);
    y.push_back(normal * (c.scale ? d.scale.get(j) : 1) + (c.bias ? d.bias.get(j) : 0));
  }
  return y;
}

std::vector<double> row_of(const Case& c, const TestTensor& t, std::int64_t r) {
  std::vector<double> row;
  for (std::int64_t j = 0; j < c.size(); ++j) row.push_back(t.get(c.at(r, j)));
  return row;
}

double tolerance(DType dtype) {
  return dtype == DType::f64 ? 1e-11 : dtype == DType::f32 ? 2e-5 : 0.03;
}

bool near(double got, double want, double tolerance) {
  return std::fabs(got - want) <= tolerance * (std::fabs(want) + 1);
}

std::vector<kernels::Tile> tiles(std::vector<const TestTensor*> tensors) {
  std::vector<kernels::Tile> result;
  for (const TestTensor* t : tensors) {
    if (t != nullptr) result.push_back(t->tile());
  }
  return result;
}

}  // namespace

TEST_CASE("norms forward equal a plain loop in double") {
  for (const Case& c : cases()) {
    const Data d(c);
    test::for_each_variant([&](const std::string& variant) {
      INFO(variant << ", " << c.text());
      TestTensor y(c.dtype, c.shape), mean(c.statistics(), c.rows_shape()),
          rstd(c.statistics(), c.rows_shape());
      test::run_kernel("norm_forward", c.attributes(),
                       tiles({&d.x, c.scale ? &d.scale : nullptr, c.bias ? &d.bias : nullptr}),
                       tiles({&y, c.rms ? nullptr : &mean, &rstd}));
      for (std::int64_t r = 0; r < c.rows(); ++r) {
        const std::vector<double> want = reference_row(c, d, row_of(c, d.x, r));
        for (std::int64_t j = 0; j < c.size(); ++j) {
          REQUIRE(near(y.get(c.at(r, j)), want[static_cast<std::size_t>(j)], tolerance(c.dtype)));
        }
      }
    });
  }
}

TEST_CASE("norms backward equal finite differences, f32 and bf16 equal f64") {
  for (const Case& c : cases()) {
    const Data d(c);
    // Derivative of sum(dy * y) by x, scale and bias, by central differences in double.
    std::vector<double> dx(static_cast<std::size_t>(d.x.size()));
    std::vector<double> dscale(static_cast<std::size_t>(c.size())), dbias = dscale;
    for (std::int64_t r = 0; r < c.rows(); ++r) {
      std::vector<double> x = row_of(c, d.x, r);
      const auto loss = [&] {
        const std::vector<double> y = reference_row(c, d, x);
        double sum = 0;
        for (std::int64_t j = 0; j < c.size(); ++j) {
          sum += y[static_cast<std::size_t>(j)] * d.dy.get(c.at(r, j));
        }
        return sum;
      };
      Case plain = c;
      plain.scale = plain.bias = false;
      const std::vector<double> normal = reference_row(plain, d, x);
      for (std::int64_t j = 0; j < c.size(); ++j) {
        const auto at = static_cast<std::size_t>(j);
        dscale[at] += d.dy.get(c.at(r, j)) * normal[at];
        dbias[at] += d.dy.get(c.at(r, j));
        if (c.size() > 100 && j % 50 != 0) continue;  // differences cost a row each
        const double old = x[at], h = 1e-5;
        x[at] = old + h;
        const double up = loss();
        x[at] = old - h;
        dx[static_cast<std::size_t>(c.at(r, j))] = (up - loss()) / (2 * h);
        x[at] = old;
      }
    }
    test::for_each_variant([&](const std::string& variant) {
      INFO(variant << ", " << c.text());
      TestTensor y(c.dtype, c.shape), mean(c.statistics(), c.rows_shape()),
          rstd(c.statistics(), c.rows_shape()), gx(c.dtype, c.shape),
          gscale(c.statistics(), {c.size()}), gbias(c.statistics(), {c.size()});
      const TestTensor* scale = c.scale ? &d.scale : nullptr;
      const TestTensor* means = c.rms ? nullptr : &mean;
      test::run_kernel("norm_forward", c.attributes(),
                       tiles({&d.x, scale, c.bias ? &d.bias : nullptr}), tiles({&y, means, &rstd}));
      test::run_kernel("norm_backward", c.attributes(), tiles({&d.dy, &d.x, scale, means, &rstd}),
                       tiles({&gx, c.scale ? &gscale : nullptr, c.bias ? &gbias : nullptr}));
      const double allowed = std::max(tolerance(c.dtype), 1e-6) * 3;
      for (std::int64_t r = 0; r < c.rows(); ++r) {
        for (std::int64_t j = 0; j < c.size(); ++j) {
          if (c.size() > 100 && j % 50 != 0) continue;
          REQUIRE(near(gx.get(c.at(r, j)), dx[static_cast<std::size_t>(c.at(r, j))], allowed));
        }
      }
      for (std::int64_t j = 0; j < c.size(); ++j) {
        const auto at = static_cast<std::size_t>(j);
        const double exact =
            std::max(tolerance(c.dtype == DType::f64 ? DType::f64 : DType::f32), 1e-11);
        if (c.scale) REQUIRE(near(gscale.get(j), dscale[at], 10 * exact));
        if (c.bias) REQUIRE(near(gbias.get(j), dbias[at], 10 * exact));
      }
    });
  }
}

TEST_CASE("a split axis gives what the whole one gives") {
  for (const bool rms : {false, true}) {
    const Case c{DType::f64, {6, 29}, 1, rms, true, true};
    const Data d(c);
    test::for_each_variant([&](const std::string& variant) {
      INFO(variant << (rms ? ", rms" : ""));
      TestTensor y(c.dtype, c.shape), mean(c.dtype, {6}), rstd(c.dtype, {6}), dx(c.dtype, c.shape),
          dscale(c.dtype, {29}), dbias(c.dtype, {29});
      const TestTensor* means = rms ? nullptr : &mean;
      test::run_kernel("norm_forward", c.attributes(), tiles({&d.x, &d.scale, &d.bias}),
                       tiles({&y, means, &rstd}));
      test::run_kernel("norm_backward", c.attributes(),
                       tiles({&d.dy, &d.x, &d.scale, means, &rstd}), tiles({&dx, &dscale, &dbias}));

      // Three parts, one of them empty.
      const Numbers borders = {0, 11, 11, 29};
      const auto part = [&](const TestTensor& t, std::size_t p) {
        const std::int64_t n = borders[p + 1] - borders[p];
        const bool matrix = t.tile().rank == 2;
        TestTensor result(c.dtype, matrix ? Numbers{6, n} : Numbers{n},
                          matrix ? Numbers{0, borders[p]} : Numbers{borders[p]},
                          matrix ? Numbers{6, 29} : Numbers{29});
        for (std::int64_t i = 0; i < result.size(); ++i) {
          result.set(i, t.get(i / n * (matrix ? 29 : 0) + borders[p] + i % n));
        }
        return result;
      };
      std::vector<TestTensor> moments;
      TestTensor sums(c.dtype, {6, 2}), mean2(c.dtype, {6}), variance2(c.dtype, {6}),
          rstd2(c.dtype, {6});
      const TestTensor* means2 = rms ? nullptr : &mean2;
      sums.fill([](auto) { return 0; });
      for (std::size_t p = 0; p < 3; ++p) {
        moments.emplace_back(c.dtype, Numbers{6, 3});
        test::run_kernel("norm_moments", c.attributes(), {part(d.x, p).tile()},
                         {moments[p].tile()});
      }
      const Attributes whole{{"size", std::int64_t{29}}};
      if (!rms) test::add_shares("moments_mean", whole, moments, nullptr, mean2);
      test::add_shares("moments_variance", whole, moments, means2, variance2);
      rstd2.fill([&](std::int64_t r) { return 1 / std::sqrt(variance2.get(r) + c.epsilon); });
      for (std::int64_t r = 0; r < 6; ++r) {
        if (!rms) CHECK(near(mean2.get(r), mean.get(r), 1e-12));
        CHECK(near(rstd2.get(r), rstd.get(r), 1e-12));
      }
      for (std::size_t p = 0; p < 3; ++p) {
        TestTensor own(c.dtype, {6, 2});
        const TestTensor x = part(d.x, p), dy = part(d.dy, p), scale = part(d.scale, p);
        test::run_kernel("norm_backward_sums", c.attributes(),
                         tiles({&dy, &x, &scale, means2, &rstd2}), {own.tile()});
        for (std::int64_t i = 0; i < 12; ++i) sums.set(i, sums.get(i) + own.get(i));
      }
      for (std::size_t p = 0; p < 3; ++p) {
        const TestTensor x = part(d.x, p), dy = part(d.dy, p), scale = part(d.scale, p),
                         bias = part(d.bias, p), want_y = part(y, p), want_dx = part(dx, p),
                         want_dscale = part(dscale, p), want_dbias = part(dbias, p);
        TestTensor got(want_y), gx(want_y), gscale(want_dscale), gbias(want_dscale);
        test::run_kernel("norm_apply", c.attributes(), tiles({&x, &scale, &bias, means2, &rstd2}),
                         {got.tile()});
        Attributes attributes = c.attributes();
        attributes.set("size", std::int64_t{29});
        test::run_kernel("norm_backward_apply", attributes,
                         tiles({&dy, &x, &scale, means2, &rstd2, &sums}),
                         tiles({&gx, &gscale, &gbias}));
        for (std::int64_t i = 0; i < got.size(); ++i) {
          REQUIRE(near(got.get(i), want_y.get(i), 1e-12));
          REQUIRE(near(gx.get(i), want_dx.get(i), 1e-12));
        }
        for (std::int64_t j = 0; j < gscale.size(); ++j) {
          REQUIRE(near(gscale.get(j), want_dscale.get(j), 1e-12));
          REQUIRE(near(gbias.get(j), want_dbias.get(j), 1e-12));
        }
      }
    });
  }
}

TEST_CASE("a large mean does not spoil the variance") {
  const Case c{DType::f32, {3, 512}, 1, false, false, false};
  TestTensor x(DType::f32, c.shape), y(DType::f32, c.shape), mean(DType::f32, {3}),
      rstd(DType::f32, {3});
  x.fill([](std::int64_t i) { return 10000.0 + (i % 2 == 0 ? 0.5 : -0.5); });
  test::for_each_variant([&](const std::string& variant) {
    INFO(variant);
    test::run_kernel("norm_forward", c.attributes(), {x.tile()},
                     {y.tile(), mean.tile(), rstd.tile()});
    CHECK(near(rstd.get(1), 1 / std::sqrt(0.25 + 1e-5), 1e-4));
    CHECK(near(y.get(512), 1.0, 1e-3));
  });
}
