// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <vector>

#include "kernels/support.hpp"
#include "support/catch.hpp"
#include "tessera/base/error.hpp"
#include "tessera/program/workspace.hpp"

using namespace tessera;
using test::TestTensor;

namespace {

using Labels = std::vector<std::int64_t>;
using Extents = std::map<std::int64_t, std::int64_t>;

std::vector<std::int64_t> shape_of(const Labels& labels, const Extents& extents) {
  std::vector<std::int64_t> shape;
  for (const auto label : labels) shape.push_back(extents.at(label));
  return shape;
}

struct Case {
  Labels in0, in1, out;
  Extents extents;
  DType dtype_a = DType::f64, dtype_b = DType::f64, dtype_c = DType::f64;
  double alpha = 1;
  bool accumulate = false;

  std::string text() const {
    std::string result;
    const auto add = [&](const Labels& labels, DType dtype) {
      for (const auto label : labels)
        result += static_cast<char>('a' + label) + std::to_string(extents.at(label));
      result += std::string(":") + name_of(dtype) + " ";
    };
    add(in0, dtype_a), add(in1, dtype_b), add(out, dtype_c);
    return result + "alpha " + std::to_string(alpha) + (accumulate ? " accumulate" : "");
  }
};

/// Sum of all terms of each element of C and of their sizes, by one loop over all labels.
struct Expected {
  std::vector<double> value, size;
};

Expected by_loops(const Case& c, const TestTensor& a, const TestTensor& b, const TestTensor& old) {
  Expected expected;
  expected.value.resize(old.size());
  expected.size.resize(old.size());
  std::int64_t turns = 1;
  for (const auto& [label, extent] : c.extents) turns *= extent;
  for (std::int64_t turn = 0; turn < turns; ++turn) {
    std::map<std::int64_t, std::int64_t> at;
    std::int64_t rest = turn;
    for (const auto& [label, extent] : c.extents) at[label] = rest % extent, rest /= extent;
    const auto place = [&](const Labels& labels) {
      std::int64_t i = 0;
      for (const auto label : labels) i = i * c.extents.at(label) + at[label];
      return i;
    };
    const double term = a.get(place(c.in0)) * b.get(place(c.in1));
    expected.value[place(c.out)] += c.alpha * term;
    expected.size[place(c.out)] += std::abs(c.alpha * term);
  }
  for (std::int64_t i = 0; c.accumulate && i < old.size(); ++i) {
    expected.value[i] += old.get(i);
    expected.size[i] += std::abs(old.get(i));
  }
  return expected;
}

double epsilon_of(DType dtype) {
  return dtype == DType::f64 ? 2.3e-16 : dtype == DType::f32 ? 1.2e-7 : 1.0 / 128;
}

TestTensor random_tensor(DType dtype, const std::vector<std::int64_t>& shape, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> uniform(-1, 1);
  TestTensor tensor(dtype, shape);
  tensor.fill([&](std::int64_t) { return uniform(random); });
  return tensor;
}

/// Runs the kernel with exactly the workspace of the plan, canaries behind it.
void run_einsum(const Case& c, const TestTensor& a, const TestTensor& b, const TestTensor& out) {
  const auto bytes = static_cast<std::size_t>(
      program::einsum_workspace(c.dtype_a, c.dtype_b, c.dtype_c, a.size(), b.size(), out.size()));
  const device::Memory workspace(bytes + 64);
  auto* end = static_cast<unsigned char*>(workspace.data()) + bytes;
  std::fill(end, end + 64, 0xC5);
  Attributes attributes{{"in0", c.in0}, {"in1", c.in1}, {"out", c.out}};
  if (c.alpha != 1) attributes.set("alpha", c.alpha);
  if (c.accumulate) attributes.set("accumulate", std::int64_t{1});
  test::run_kernel("einsum", attributes, {a.tile(), b.tile()}, {out.tile()}, workspace.data());
  CHECK(std::all_of(end, end + 64, [](unsigned char byte) { return byte == 0xC5; }));
}

void check_case(const Case& c) {
  INFO(c.text());
  test::exec();
  const TestTensor a = random_tensor(c.dtype_a, shape_of(c.in0, c.extents), 1);
  const TestTensor b = random_tensor(c.dtype_b, shape_of(c.in1, c.extents), 2);
  TestTensor out = random_tensor(c.dtype_c, shape_of(c.out, c.extents), 3);
  const Expected expected = by_loops(c, a, b, out);
  if (!c.accumulate) out.fill([](std::int64_t) { return std::nan(""); });
  run_einsum(c, a, b, out);
  const bool wide = c.dtype_a == DType::f64 || c.dtype_b == DType::f64 || c.dtype_c == DType::f64;
  const double eps_sum = epsilon_of(wide ? DType::f64 : DType::f32);
  int wrong = 0;
  for (std::int64_t i = 0; i < out.size(); ++i) {
    const double tolerance = 40 * eps_sum * expected.size[i] +
                             1.01 * epsilon_of(c.dtype_c) * std::abs(expected.value[i]) / 2;
    if (!(std::abs(out.get(i) - expected.value[i]) <= tolerance)) ++wrong;
  }
  CHECK(wrong == 0);
}

/// A random pattern of up to six labels, each in at least one operand.
Case random_case(std::mt19937& random) {
  Case c;
  const int labels = 1 + static_cast<int>(random() % 6);
  const std::int64_t sizes[] = {1, 2, 3, 5, 7, 4};
  for (int label = 0; label < labels; ++label) {
    c.extents[label] = random() % 40 == 0 ? 0 : sizes[random() % 6];
    const unsigned in = 1 + random() % 7;
    if (in & 1) c.in0.push_back(label);
    if (in & 2) c.in1.push_back(label);
    if (in & 4) c.out.push_back(label);
  }
  // Half of the patterns keep the labels' order, so that dims merge.
  if (random() % 2 == 0) {
    std::shuffle(c.in0.begin(), c.in0.end(), random);
    std::shuffle(c.in1.begin(), c.in1.end(), random);
    std::shuffle(c.out.begin(), c.out.end(), random);
  }
  c.alpha = random() % 3 == 0 ? 0.5 : 1;
  c.accumulate = random() % 3 == 0;
  return c;
}

void set_dtypes(Case& c, std::mt19937& random) {
  const DType all[][3] = {
      {DType::f64, DType::f64, DType::f64},    {DType::f32, DType::f32, DType::f32},
      {DType::bf16, DType::bf16, DType::bf16}, {DType::bf16, DType::bf16, DType::f32},
      {DType::f32, DType::bf16, DType::f32},   {DType::f32, DType::f32, DType::bf16}};
  const auto& chosen = all[random() % 6];
  c.dtype_a = chosen[0], c.dtype_b = chosen[1], c.dtype_c = chosen[2];
}

}  // namespace

TEST_CASE("einsum equals a loop over all labels for random patterns") {
  test::for_each_variant([](const std::string& variant) {
    INFO(variant);
    std::mt19937 random(2024);
    for (int i = 0; i < 1500; ++i) {
      Case c = random_case(random);
      set_dtypes(c, random);
      check_case(c);
    }
  });
}

TEST_CASE("the products of a Transformer") {
  // b 0, l 1, h 2, d 3, m 4, x 5
  const Extents extents = {{0, 2}, {1, 5}, {2, 3}, {3, 4}, {4, 6}, {5, 12}};
  const auto of = [&](std::initializer_list<std::int64_t> labels) {
    Extents chosen;
    for (const auto label : labels) chosen[label] = extents.at(label);
    return chosen;
  };
  const Case cases[] = {
      {{0, 1, 5}, {5, 2, 3}, {0, 1, 2, 3}, of({0, 1, 2, 3, 5})},  // x W -> heads
      {{0, 1, 2, 3}, {5, 2, 3}, {0, 1, 5}, of({0, 1, 2, 3, 5})},  // its gradient for x
      {{0, 1, 5}, {0, 1, 2, 3}, {5, 2, 3}, of({0, 1, 2, 3, 5})},  // and for W
      {{0, 1, 2, 3}, {0, 4, 2, 3}, {0, 2, 1, 4}, of({0, 1, 2, 3, 4})},
      {{0, 1, 2, 3}, {2, 3, 5}, {0, 1, 5}, of({0, 1, 2, 3, 5})},
      {{0, 1, 2, 3}, {2, 5, 3}, {0, 1, 5}, of({0, 1, 2, 3, 5})},  // two sums that do not merge
      {{0, 1, 5}, {4, 5}, {0, 1, 4}, of({0, 1, 4, 5})},           // tied softmax weights
  };
  test::for_each_variant([&](const std::string& variant) {
    INFO(variant);
    std::mt19937 random(3);
    for (Case c : cases) {
      for (int i = 0; i < 4; ++i) {
        set_dtypes(c, random);
        c.accumulate = i % 2 == 1;
        check_case(c);
      }
    }
  });
}

TEST_CASE("products larger than a panel") {
  test::for_each_variant([](const std::string& variant) {
    INFO(variant);
    if (variant == "portable") return;
    const auto bf16 = DType::bf16;
    check_case({{0, 1}, {1, 2}, {0, 2}, {{0, 3}, {1, 1100}, {2, 1030}}, bf16, bf16, bf16});
    check_case({{1, 0}, {2, 1}, {0, 2}, {{0, 1050}, {1, 3}, {2, 5}}, bf16, bf16, DType::f32});
    check_case({{0, 1}, {2, 1}, {2, 0}, {{0, 2}, {1, 2100}, {2, 3}}, bf16, bf16, bf16, 0.5, true});
  });
}

TEST_CASE("long sums keep the precision of f32") {
  test::for_each_variant([](const std::string& variant) {
    INFO(variant);
    const auto f32 = DType::f32;
    check_case({{0}, {0}, {}, {{0, 100003}}, f32, f32, f32});
    check_case({{1, 0}, {0}, {1}, {{0, 5003}, {1, 3}}, f32, f32, f32});
    check_case({{1, 0}, {1}, {1}, {{0, 5003}, {1, 3}}, f32, f32, f32});
    check_case({{1, 0}, {1, 0}, {0}, {{0, 37}, {1, 501}}, f32, f32, f32});
    check_case({{1, 0}, {0}, {1, 0}, {{0, 37}, {1, 51}}, f32, f32, f32});
  });
}

TEST_CASE("operands that do not fit together are named") {
  const TestTensor a(DType::f32, {2, 3}), b(DType::f32, {4, 5}), out(DType::f32, {2, 5});
  const Attributes attributes{{"in0", Labels{0, 1}}, {"in1", Labels{1, 2}}, {"out", Labels{0, 2}}};
  CHECK_THROWS_AS(test::run_kernel("einsum", attributes, {a.tile(), b.tile()}, {out.tile()}),
                  Error);
  const Attributes twice{{"in0", Labels{0, 0}}, {"in1", Labels{1, 2}}, {"out", Labels{0, 2}}};
  CHECK_THROWS_AS(test::run_kernel("einsum", twice, {a.tile(), b.tile()}, {out.tile()}), Error);
}
