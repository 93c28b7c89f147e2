// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "kernels/support.hpp"
#include "support/catch.hpp"

using namespace tessera;
using test::TestTensor;

namespace {

using Numbers = std::vector<std::int64_t>;

/// One loop over all labels, in double.
std::vector<double> reference(const TestTensor& x, const Numbers& in, const TestTensor& y,
                              const Numbers& out, const std::string& op, double alpha) {
  std::map<std::int64_t, std::int64_t> extent;
  for (std::size_t d = 0; d < in.size(); ++d) extent[in[d]] = x.tile().extent[d];
  for (std::size_t d = 0; d < out.size(); ++d) extent[out[d]] = y.tile().extent[d];
  std::int64_t total = 1;
  for (const auto& [label, n] : extent) total *= n;
  const double inf = HUGE_VAL;
  std::vector<double> result(static_cast<std::size_t>(y.size()), op == "max"   ? -inf
                                                                 : op == "min" ? inf
                                                                               : 0.0);
  for (std::int64_t i = 0; i < total; ++i) {
    std::map<std::int64_t, std::int64_t> index;
    std::int64_t rest = i;
    for (const auto& [label, n] : extent) {
      index[label] = rest % n;
      rest /= n;
    }
    std::int64_t from = 0, to = 0;
    for (std::size_t d = 0; d < in.size(); ++d) from = from * extent[in[d]] + index[in[d]];
    for (std::size_t d = 0; d < out.size(); ++d) to = to * extent[out[d]] + index[out[d]];
    double& sum = result[static_cast<std::size_t>(to)];
    const double v = x.get(from);
    if (op == "sum") sum += v;
    if (op == "sum_squares") sum += v * v;
    if (op == "max") sum = std::max(sum, v);
    if (op == "min") sum = std::min(sum, v);
  }
  for (double& v : result) v *= alpha;
  return result;
}

void check(const TestTensor& x, const Numbers& in, TestTensor& y, const Numbers& out,
           const std::string& op, double alpha) {
  const Attributes attributes{{"in", in}, {"out", out}, {"op", op}, {"alpha", alpha}};
  const std::vector<double> want = reference(x, in, y, out, op, alpha);
  test::for_each_variant([&](const std::string& variant) {
    y.fill([](auto) { return 777; });
    test::run_kernel("reduce", attributes, {x.tile()}, {y.tile()});
    const double relative = y.tile().dtype == DType::bf16                                  ? 0.005
                            : x.tile().dtype == DType::f64 && y.tile().dtype == DType::f64 ? 1e-13
                                                                                           : 2e-6;
    const double terms = static_cast<double>(x.size()) / std::max<double>(1.0, y.size()) + 1;
    for (std::int64_t i = 0; i < y.size(); ++i) {
      const double wanted = want[static_cast<std::size_t>(i)];
      if (!(std::fabs(y.get(i) - wanted) <= relative * (std::fabs(wanted) + std::sqrt(terms)))) {
        FAIL(variant << ", " << op << " of " << name_of(x.tile().dtype) << ": element " << i
                     << " is " << y.get(i) << ", not " << wanted);
      }
    }
  });
}

}  // namespace

TEST_CASE("random reductions, permutations and broadcasts") {
  std::mt19937 random(3);
  const auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  const DType types[] = {DType::f32, DType::f64, DType::bf16};
  const std::string ops[] = {"sum", "max", "min", "sum_squares"};
  for (int round = 0; round < 200; ++round) {
    const Numbers sizes = {1, 2, 3, 5, 8, 31, 64, 70, 129};
    Numbers in, extents, kept;
    std::int64_t size = 1;
    for (int d = pick(0, 5); d > 0; --d) {
      std::int64_t n = sizes[static_cast<std::size_t>(pick(0, 8))];
      if (size * n > 40000) n = 2;
      size *= n;
      in.push_back(static_cast<std::int64_t>(in.size()));
      extents.push_back(n);
      if (pick(0, 2) != 0) kept.push_back(in.back());
    }
    if (pick(0, 1) == 0) std::shuffle(kept.begin(), kept.end(), random);
    Numbers out = kept, out_extents;
    for (const std::int64_t label : kept) {
      out_extents.push_back(extents[static_cast<std::size_t>(label)]);
    }
    if (pick(0, 3) == 0) {
      const auto at = pick(0, static_cast<int>(out.size()));
      out.insert(out.begin() + at, 50);
      out_extents.insert(out_extents.begin() + at, pick(1, 4));
    }
    TestTensor x(types[pick(0, 2)], extents);
    TestTensor y(types[pick(0, 2)], out_extents);
    std::uniform_real_distribution<double> any(-1, 1);
    x.fill([&](auto) { return any(random); });
    INFO("round " << round);
    check(x, in, y, out, ops[pick(0, 3)], pick(0, 1) == 0 ? 1.0 : -0.5);
  }
}

TEST_CASE("the hot shapes: leading rows, the last dim, a transposition") {
  std::mt19937 random(4);
  std::uniform_real_distribution<double> any(-1, 1);
  TestTensor x(DType::f32, {300, 1100});
  x.fill([&](auto) { return any(random); });
  TestTensor columns(DType::f32, {1100}), rows(DType::f32, {300}), all(DType::f32, {}),
      turned(DType::f32, {1100, 300});
  check(x, {0, 1}, columns, {1}, "sum", 1.0);
  check(x, {0, 1}, rows, {0}, "max", 1.0);
  check(x, {0, 1}, all, {}, "sum_squares", 1.0);
  check(x, {0, 1}, turned, {1, 0}, "sum", 2.0);
}

TEST_CASE("a sum of 40 million f32 numbers is good to 1e-6") {
  const std::int64_t n = 40000000;
  std::vector<float> x(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) {
    x[static_cast<std::size_t>(i)] = 0.1f + 1e-3f * static_cast<float>(i % 7);
  }
  double want = 0.0, squares = 0.0;
  for (const float v : x) want += v, squares += static_cast<double>(v) * v;
  kernels::Tile tile;
  tile.rank = 1;
  tile.extent[0] = tile.global[0] = n;
  tile.data = x.data();
  TestTensor y(DType::f32, {});
  test::exec();
  const Attributes sum{{"in", Numbers{0}}, {"out", Numbers{}}, {"op", std::string("sum")}};
  test::run_kernel("reduce", sum, {tile}, {y.tile()});
  CHECK(std::fabs(y.get(0) / want - 1) < 1e-6);
  const Attributes norm{{"in", Numbers{0}}, {"out", Numbers{}}, {"op", std::string("sum_squares")}};
  test::run_kernel("reduce", norm, {tile}, {y.tile()});
  CHECK(std::fabs(y.get(0) / squares - 1) < 1e-6);
}

TEST_CASE("nothing to reduce gives zero or the lowest finite number") {
  TestTensor x(DType::f32, {3, 0}), y(DType::f32, {3});
  for (const std::string op : {"sum", "sum_squares", "max", "min"}) {
    const Attributes attributes{{"in", Numbers{0, 1}}, {"out", Numbers{0}}, {"op", op}};
    test::for_each_variant([&](const std::string& variant) {
      INFO(variant << ", " << op);
      y.fill([](auto) { return 5; });
      test::run_kernel("reduce", attributes, {x.tile()}, {y.tile()});
      const double big = std::numeric_limits<float>::max();
      CHECK(y.get(2) == (op == "max" ? -big : op == "min" ? big : 0.0));
    });
  }
  TestTensor empty(DType::f32, {0});
  const Attributes attributes{
      {"in", Numbers{1, 0}}, {"out", Numbers{0}}, {"op", std::string("sum")}};
  TestTensor none(DType::f32, {4, 0});
  test::for_each_variant([&](const std::string&) {
    test::run_kernel("reduce", attributes, {none.tile()}, {empty.tile()});
  });
}

TEST_CASE("a NaN is the largest and the smallest number, and spoils sums") {
  for (const std::int64_t at : {0, 5, 99}) {
    TestTensor x(DType::f32, {100}), y(DType::f32, {});
    x.fill([&](std::int64_t i) { return i == at ? NAN : static_cast<double>(i); });
    for (const std::string op : {"sum", "sum_squares", "max", "min"}) {
      const Attributes attributes{{"in", Numbers{0}}, {"out", Numbers{}}, {"op", op}};
      test::for_each_variant([&](const std::string& variant) {
        INFO(variant << ", " << op);
        test::run_kernel("reduce", attributes, {x.tile()}, {y.tile()});
        CHECK(std::isnan(y.get(0)));
      });
    }
  }
}
