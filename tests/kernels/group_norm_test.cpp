// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cmath>
#include <random>

#include "kernels/support.hpp"
#include "support/catch.hpp"

using namespace tessera;
using test::TestTensor;

namespace {

using Numbers = std::vector<std::int64_t>;
constexpr double kEpsilon = 1e-4;

/// x [outer, before, kept, after].
struct Case {
  std::int64_t outer, before, kept, after;
  bool scale, bias;
  std::int64_t masked = 0;  ///< row weights for each index of outer; 0: all rows count

  Numbers shape() const { return {outer, before, kept, after}; }
  std::int64_t line() const { return kept * after; }
  /// Which row weight element i has.
  std::int64_t mask(std::int64_t i) const { return i / line() / (before / masked); }
  std::int64_t group(std::int64_t i) const {
    return i / (before * line()) * kept + i % line() / after;
  }
  Attributes attributes() const {
    return {{"roles", Numbers{0, 1, 2, 3}},
            {"epsilon", kEpsilon},
            {"scale", std::int64_t{scale}},
            {"bias", std::int64_t{bias}},
            {"size", before * after}};
  }
};

double tolerance(DType dtype) {
  return dtype == DType::f64 ? 1e-11 : dtype == DType::f32 ? 3e-5 : 0.04;
}

void check(const TestTensor& found, const std::vector<double>& expected, double tolerance) {
  for (std::int64_t i = 0; i < found.size(); ++i) {
    const double want = expected[static_cast<std::size_t>(i)];
    REQUIRE(std::abs(found.get(i) - want) <= tolerance * (1 + std::abs(want)));
  }
}

/// dx, dscale and dbias by their formulas in double.
struct Reference {
  std::vector<double> dx, dscale, dbias, mean, variance, count;

  Reference(const Case& c, const TestTensor& x, const TestTensor& dy, const TestTensor& scale,
            const TestTensor& weights) {
    const auto groups = static_cast<std::size_t>(c.outer * c.kept);
    mean.resize(groups), variance.resize(groups), count.resize(groups);
    dscale.resize(static_cast<std::size_t>(c.line())), dbias = dscale;
    std::vector<double> sum(groups), sum_x(groups);
    const auto group = [&](std::int64_t i) { return static_cast<std::size_t>(c.group(i)); };
    const auto counts = [&](std::int64_t i) {
      return c.masked == 0 || weights.get(c.mask(i)) != 0 ? 1.0 : 0.0;
    };
    for (std::int64_t i = 0; i < x.size(); ++i) count[group(i)] += counts(i);
    const auto share = [&](std::int64_t i) { return counts(i) / std::max(1.0, count[group(i)]); };
    for (std::int64_t i = 0; i < x.size(); ++i) mean[group(i)] += x.get(i) * share(i);
    for (std::int64_t i = 0; i < x.size(); ++i)
      variance[group(i)] += std::pow(x.get(i) - mean[group(i)], 2) * share(i);
    const auto normal = [&](std::int64_t i) {
      return (x.get(i) - mean[group(i)]) / std::sqrt(variance[group(i)] + kEpsilon);
    };
    const auto factor = [&](std::int64_t i) { return c.scale ? scale.get(i % c.line()) : 1.0; };
    for (std::int64_t i = 0; i < x.size(); ++i) {
      const auto j = static_cast<std::size_t>(i % c.line());
      dscale[j] += dy.get(i) * normal(i);
      dbias[j] += dy.get(i);
      sum[group(i)] += dy.get(i) * factor(i);
      sum_x[group(i)] += dy.get(i) * factor(i) * normal(i);
    }
    for (std::int64_t i = 0; i < x.size(); ++i)
      dx.push_back(
          (dy.get(i) * factor(i) - (sum[group(i)] + normal(i) * sum_x[group(i)]) * share(i)) /
          std::sqrt(variance[group(i)] + kEpsilon));
  }
};

/// As pointwise code does between the moments kernels.
void divide(TestTensor& sum, const TestTensor& count) {
  const TestTensor sums = sum;
  sum.fill([&](std::int64_t i) { return sums.get(i) / std::max(1.0, count.get(i)); });
}

std::vector<Case> cases() {
  return {
      {1, 300, 37, 1, true, true},   {3, 5, 4, 6, true, true},        {2, 7, 3, 1, false, false},
      {1, 1, 5, 800, true, false},   {1, 9, 5000, 1, true, true},     {0, 3, 2, 2, true, true},
      {2, 3, 4, 0, true, true},      {1, 300, 37, 1, true, true, 20}, {3, 12, 4, 6, true, true, 4},
      {2, 7, 3, 1, false, false, 7}, {0, 4, 2, 2, true, true, 2}};
}

}  // namespace

TEST_CASE("group norm kernels equal their formulas in double") {
  for (const Case& c : cases()) {
    for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
      const DType wide = dtype == DType::f64 ? DType::f64 : DType::f32;
      TestTensor x(dtype, c.shape()), dy = x, dx = x;
      TestTensor scale(dtype, {c.line()});
      TestTensor dscale(wide, {c.line()}), dbias = dscale;
      TestTensor moments(wide, {c.outer, c.kept, 3}), sums(wide, {c.outer, c.kept, 2});
      TestTensor mean(wide, {c.outer, c.kept}), variance = mean, count = mean;
      std::mt19937 random(7);
      std::normal_distribution<double> normal(0.3, 1);
      for (TestTensor* t : {&x, &dy, &scale}) t->fill([&](auto) { return normal(random); });
      TestTensor weights(DType::f32, {c.outer, c.masked});
      // Of the last index of outer no row counts.
      const std::int64_t last = c.outer > 1 ? (c.outer - 1) * c.masked : weights.size();
      weights.fill([&](std::int64_t i) { return i < last && random() % 3 != 0 ? 0.5 : 0; });
      const Reference want(c, x, dy, scale, weights);
      test::for_each_variant([&](const std::string& variant) {
        INFO(variant << ", " << name_of(dtype) << ", " << c.outer << " " << c.before << " "
                     << c.kept << " " << c.after);
        std::vector<kernels::Tile> gradients;
        if (c.scale) gradients.push_back(dscale.tile());
        if (c.bias) gradients.push_back(dbias.tile());
        const bool masks = c.masked > 0;
        std::vector<kernels::Tile> of_moments{x.tile()};
        if (masks) of_moments.push_back(weights.tile());
        test::run_kernel("group_norm_moments", c.attributes(), of_moments, {moments.tile()});
        Attributes whole{{"size", masks ? 1 : std::max<std::int64_t>(1, c.before * c.after)}};
        test::run_kernel("moments_mean", whole, {moments.tile()}, {mean.tile()});
        if (masks) {
          test::run_kernel("moments_count", {}, {moments.tile()}, {count.tile()});
          divide(mean, count);
        }
        test::run_kernel("moments_variance", whole, {moments.tile(), mean.tile()},
                         {variance.tile()});
        if (masks) divide(variance, count);
        std::vector<kernels::Tile> inputs{dy.tile(), x.tile()};
        if (c.scale) inputs.push_back(scale.tile());
        inputs.push_back(mean.tile()), inputs.push_back(variance.tile());
        gradients.insert(gradients.begin(), sums.tile());
        test::run_kernel("group_norm_backward_sums", c.attributes(), inputs, gradients);
        inputs.push_back(sums.tile());
        if (masks) inputs.push_back(weights.tile()), inputs.push_back(count.tile());
        test::run_kernel("group_norm_backward_apply", c.attributes(), inputs, {dx.tile()});
        check(mean, want.mean, tolerance(wide));
        check(variance, want.variance, tolerance(wide));
        if (masks) check(count, want.count, 0);
        check(dx, want.dx, 2 * tolerance(dtype));
        if (c.scale) check(dscale, want.dscale, 10 * tolerance(wide));
        if (c.bias) check(dbias, want.dbias, 10 * tolerance(wide));
      });
    }
  }
}

TEST_CASE(
    "shares of parts add up to the whole's moments; empty parts and a large mean do no harm") {
  const Case c{1, 96, 3, 1, false, false};
  TestTensor x(DType::f32, c.shape());
  x.fill([](std::int64_t i) { return 5000.0 + (i / 3 % 2 == 0 ? 0.5 : -0.5); });
  test::for_each_variant([&](const std::string& variant) {
    INFO(variant);
    std::vector<TestTensor> moments;
    TestTensor mean(DType::f32, {1, 3}), variance = mean;
    const Numbers borders{0, 41, 41, 96};
    for (std::size_t p = 0; p < 3; ++p) {
      TestTensor part(DType::f32, {1, borders[p + 1] - borders[p], 3, 1});
      part.fill([&](std::int64_t i) { return x.get(borders[p] * 3 + i); });
      moments.emplace_back(DType::f32, Numbers{1, 3, 3});
      test::run_kernel("group_norm_moments", c.attributes(), {part.tile()}, {moments[p].tile()});
    }
    const Attributes whole{{"size", std::int64_t{96}}};
    test::add_shares("moments_mean", whole, moments, nullptr, mean);
    test::add_shares("moments_variance", whole, moments, &mean, variance);
    for (std::int64_t i = 0; i < 3; ++i) {
      CHECK(std::abs(mean.get(i) - 5000) < 1e-3);
      CHECK(std::abs(variance.get(i) - 0.25) < 1e-5);
    }
  });
}
