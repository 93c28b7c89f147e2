// SPDX-License-Identifier: BSD-3-Clause
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "kernels/support.hpp"
#include "support/catch.hpp"

using namespace tessera;
using test::TestTensor;

namespace {

using Numbers = std::vector<std::int64_t>;

struct Case {
  DType dtype;
  std::int64_t rows, vocab;
  double smoothing, z_loss;
  double spread = 3;
};

DType statistics(DType dtype) {
  return dtype == DType::f64 ? DType::f64 : DType::f32;
}

Attributes attributes_of(const Case& c) {
  return {{"smoothing", c.smoothing}, {"z_loss", c.z_loss}, {"vocab", c.vocab}};
}

double reference_loss(const Case& c, const std::vector<double>& logits, std::int64_t label) {
  double max = -1e300, sum = 0, mean = 0;
  for (const double x : logits) max = std::max(max, x);
  for (const double x : logits) sum += std::exp(x - max), mean += x / static_cast<double>(c.vocab);
  const double lse = max + std::log(sum);
  return lse - (1 - c.smoothing) * logits[static_cast<std::size_t>(label)] - c.smoothing * mean +
         c.z_loss * lse * lse;
}

struct Data {
  TestTensor logits, labels, dloss;
  explicit Data(const Case& c)
      : logits(c.dtype, {c.rows, c.vocab}),
        labels(DType::i32, {c.rows}),
        dloss(statistics(c.dtype), {c.rows}) {
    std::mt19937 random(11);
    std::normal_distribution<double> normal(0, c.spread);
    logits.fill([&](auto) { return normal(random); });
    labels.fill([&](std::int64_t i) { return (i * 7919 + 3) % c.vocab; });
    dloss.fill([&](auto) { return normal(random); });
  }
  std::vector<double> row(std::int64_t r) const {
    const std::int64_t n = logits.tile().extent[1];
    std::vector<double> result;
    for (std::int64_t j = 0; j < n; ++j) result.push_back(logits.get(r * n + j));
    return result;
  }
};

TestTensor columns(const TestTensor& whole, std::int64_t begin, std::int64_t end) {
  const std::int64_t rows = whole.tile().extent[0], vocab = whole.tile().extent[1];
  TestTensor part(whole.tile().dtype, {rows, end - begin}, {0, begin}, {rows, vocab});
  for (std::int64_t i = 0; i < part.size(); ++i) {
    part.set(i, whole.get(i / (end - begin) * vocab + begin + i % (end - begin)));
  }
  return part;
}

/// The kernels on a vocabulary cut at `borders`, with the reductions between them in the test.
struct Result {
  std::vector<double> loss, lse;
  std::vector<std::vector<double>> dlogits;  // of the parts, side by side in each row
};
Result run(const Case& c, const Data& d, const Numbers& borders) {
  const DType s = statistics(c.dtype);
  const std::size_t parts = borders.size() - 1;
  const std::int64_t count = c.smoothing > 0 ? 3 : 2;  // the third is for smoothing alone
  TestTensor max(s, {c.rows}), sums(s, {count, c.rows}), loss(s, {c.rows}), lse(s, {c.rows});
  max.fill([](auto) { return -1e30; });
  sums.fill([](auto) { return 0; });
  for (std::size_t p = 0; p < parts; ++p) {
    TestTensor own(s, {c.rows});
    test::run_kernel("softmax_max", {}, {columns(d.logits, borders[p], borders[p + 1]).tile()},
                     {own.tile()});
    for (std::int64_t r = 0; r < c.rows; ++r) max.set(r, std::max(max.get(r), own.get(r)));
  }
  for (std::size_t p = 0; p < parts; ++p) {
    TestTensor own(s, {count, c.rows});
    test::run_kernel(
        "softmax_sums", {},
        {columns(d.logits, borders[p], borders[p + 1]).tile(), max.tile(), d.labels.tile()},
        {own.tile()});
    for (std::int64_t i = 0; i < count * c.rows; ++i) sums.set(i, sums.get(i) + own.get(i));
  }
  test::run_kernel("softmax_finish", attributes_of(c), {max.tile(), sums.tile(), d.labels.tile()},
                   {loss.tile(), lse.tile()});
  Result result{loss.values(), lse.values(), std::vector<std::vector<double>>(c.rows)};
  for (std::size_t p = 0; p < parts; ++p) {
    const TestTensor part = columns(d.logits, borders[p], borders[p + 1]);
    test::run_kernel("softmax_backward", attributes_of(c),
                     {part.tile(), lse.tile(), d.labels.tile(), d.dloss.tile()}, {part.tile()});
    const std::int64_t n = borders[p + 1] - borders[p];
    for (std::int64_t i = 0; i < part.size(); ++i) {
      result.dlogits[static_cast<std::size_t>(i / n)].push_back(part.get(i));
    }
  }
  return result;
}

}  // namespace

TEST_CASE("softmax cross-entropy equals a plain loop; gradients equal finite differences") {
  const std::vector<Case> all = {{DType::f64, 5, 37, 0, 0},    {DType::f64, 4, 70, 0.1, 0.01},
                                 {DType::f32, 5, 37, 0, 0},    {DType::f32, 6, 1000, 0.1, 1e-4},
                                 {DType::bf16, 5, 90, 0.1, 0}, {DType::f64, 3, 1, 0, 0},
                                 {DType::f32, 0, 9, 0, 0},     {DType::f32, 3, 200, 0, 0, 60}};
  for (const Case& c : all) {
    const Data d(c);
    const double tolerance = c.dtype == DType::f64 ? 1e-8 : c.dtype == DType::f32 ? 1e-5 : 0.02;
    test::for_each_variant([&](const std::string& variant) {
      INFO(variant << ", " << name_of(c.dtype) << ", vocabulary " << c.vocab);
      const Result got = run(c, d, {0, c.vocab});
      for (std::int64_t r = 0; r < c.rows; ++r) {
        const auto at = static_cast<std::size_t>(r);
        std::vector<double> logits = d.row(r);
        const auto label = static_cast<std::int64_t>(d.labels.get(r));
        const double loss = reference_loss(c, logits, label);
        REQUIRE(std::fabs(got.loss[at] - loss) <= 1e-5 * (1 + std::fabs(loss)));
        if (c.dtype == DType::f64) REQUIRE(std::fabs(got.loss[at] - loss) <= 1e-12 * (1 + loss));
        for (std::size_t j = 0; j < logits.size(); j += 1 + logits.size() / 50) {
          const double old = logits[j], h = 1e-5;
          logits[j] = old + h;
          const double up = reference_loss(c, logits, label);
          logits[j] = old - h;
          const double want = d.dloss.get(r) * (up - reference_loss(c, logits, label)) / (2 * h);
          logits[j] = old;
          REQUIRE(std::fabs(got.dlogits[at][j] - want) <= tolerance * (0.1 + std::fabs(want)));
        }
      }
    });
  }
}

TEST_CASE("a cut vocabulary gives what the whole one gives, empty parts included") {
  const Case c{DType::f64, 7, 53, 0.1, 0.02};
  const Data d(c);
  test::for_each_variant([&](const std::string& variant) {
    INFO(variant);
    const Result whole = run(c, d, {0, 53});
    const Result cut = run(c, d, {0, 17, 17, 40, 53});
    for (std::size_t r = 0; r < 7; ++r) {
      CHECK(std::fabs(cut.loss[r] - whole.loss[r]) < 1e-12);
      CHECK(std::fabs(cut.lse[r] - whole.lse[r]) < 1e-12);
      // The parts of a row follow each other, so both list its columns in order.
      for (std::size_t j = 0; j < 53; ++j) {
        REQUIRE(std::fabs(cut.dlogits[r][j] - whole.dlogits[r][j]) < 1e-12);
      }
    }
  });
}

TEST_CASE("huge logits neither overflow nor vanish; a NaN shows") {
  TestTensor logits(DType::f32, {2, 40}), max(DType::f32, {2}), sums(DType::f32, {3, 2}),
      labels(DType::i32, {2}), loss(DType::f32, {2}), lse(DType::f32, {2});
  logits.fill([](std::int64_t i) { return i == 45 ? NAN : i % 40 == 3 ? 3e4 : -3e4; });
  labels.fill([](auto) { return 4; });
  const Attributes attributes{{"vocab", std::int64_t{40}}};
  test::for_each_variant([&](const std::string& variant) {
    INFO(variant);
    test::run_kernel("softmax_max", {}, {logits.tile()}, {max.tile()});
    test::run_kernel("softmax_sums", {}, {logits.tile(), max.tile(), labels.tile()}, {sums.tile()});
    test::run_kernel("softmax_finish", attributes, {max.tile(), sums.tile(), labels.tile()},
                     {loss.tile(), lse.tile()});
    CHECK(loss.get(0) == Approx(6e4));
    CHECK(std::isnan(loss.get(1)));
  });
}
