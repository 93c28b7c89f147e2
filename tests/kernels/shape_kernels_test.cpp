// SPDX-License-Identifier: BSD-3-Clause
#include <string>
#include <vector>

#include "kernels/support.hpp"
#include "support/catch.hpp"

using namespace tessera;
using test::TestTensor;

namespace {

using Numbers = std::vector<std::int64_t>;
const DType kTypes[] = {DType::f32, DType::f64, DType::bf16, DType::i32};

TestTensor counting(DType dtype, Numbers extents, Numbers offset = {}, Numbers global = {}) {
  TestTensor t(dtype, std::move(extents), std::move(offset), std::move(global));
  t.fill([](std::int64_t i) { return static_cast<double>(i + 1); });
  return t;
}

}  // namespace

TEST_CASE("slice takes a window, pad puts it back between zeros") {
  for (const DType dtype : kTypes) {
    const TestTensor x = counting(dtype, {4, 6, 5});
    test::for_each_variant([&](const std::string& variant) {
      INFO(variant << ", " << name_of(dtype));
      TestTensor window(dtype, {4, 2, 3}), back(dtype, {4, 6, 5});
      test::run_kernel("slice", {{"begin", Numbers{0, 3, 1}}}, {x.tile()}, {window.tile()});
      for (std::int64_t i = 0; i < window.size(); ++i) {
        REQUIRE(window.get(i) == (i / 6 * 6 + 3 + i / 3 % 2) * 5 + 1 + i % 3 + 1);
      }
      back.fill([](auto) { return -1; });
      test::run_kernel("pad", {{"begin", Numbers{0, 3, 1}}}, {window.tile()}, {back.tile()});
      for (std::int64_t i = 0; i < back.size(); ++i) {
        const std::int64_t row = i / 5 % 6, column = i % 5;
        const bool inside = row >= 3 && row < 5 && column >= 1 && column < 4;
        REQUIRE(back.get(i) == (inside ? x.get(i) : 0));
      }
    });
  }
}

TEST_CASE("slices of split tensors are placed by global indices") {
  // Rows 4 .. 8 of 12 of x; y is x[2:], of which this rank holds rows 3 .. 6.
  const TestTensor x = counting(DType::f32, {5, 2}, {4, 0}, {12, 2});
  TestTensor y(DType::f32, {3, 2}, {3, 0}, {10, 2}), beyond(DType::f32, {3, 2}, {6, 0}, {10, 2});
  test::for_each_variant([&](const std::string& variant) {
    INFO(variant);
    test::run_kernel("slice", {{"begin", Numbers{2, 0}}}, {x.tile()}, {y.tile()});
    for (std::int64_t i = 0; i < y.size(); ++i) CHECK(y.get(i) == x.get(i + 2));
    CHECK_THROWS(
        test::run_kernel("slice", {{"begin", Numbers{2, 0}}}, {x.tile()}, {beyond.tile()}));
  });
}

TEST_CASE("select takes the index that a feed holds, or zeros if it is elsewhere") {
  kernels::Feeds feeds;
  feeds.values["position"] = 5;
  const Attributes attributes{{"dim", std::int64_t{1}}, {"feed", std::string("position")}};
  for (const DType dtype : kTypes) {
    const TestTensor x = counting(dtype, {3, 4, 2}, {0, 4, 0}, {3, 9, 2});
    const TestTensor other = counting(dtype, {3, 4, 2}, {0, 0, 0}, {3, 9, 2});
    test::for_each_variant([&](const std::string& variant) {
      INFO(variant << ", " << name_of(dtype));
      TestTensor y(dtype, {3, 2}), zeros(dtype, {3, 2});
      test::run_kernel("select", attributes, {x.tile()}, {y.tile()}, nullptr, feeds);
      for (std::int64_t i = 0; i < 6; ++i) CHECK(y.get(i) == x.get((i / 2 * 4 + 1) * 2 + i % 2));
      zeros.fill([](auto) { return 9; });
      test::run_kernel("select", attributes, {other.tile()}, {zeros.tile()}, nullptr, feeds);
      for (std::int64_t i = 0; i < 6; ++i) CHECK(zeros.get(i) == 0);
      CHECK_THROWS(test::run_kernel("select", attributes, {x.tile()}, {y.tile()}));
    });
  }
}

TEST_CASE("empty slices and pads") {
  TestTensor none(DType::f32, {0, 3}), x(DType::f32, {4, 3});
  test::for_each_variant([&](const std::string& variant) {
    INFO(variant);
    test::run_kernel("slice", {{"begin", Numbers{2, 0}}}, {x.tile()}, {none.tile()});
    x.fill([](auto) { return 4; });
    test::run_kernel("pad", {{"begin", Numbers{2, 0}}}, {none.tile()}, {x.tile()});
    CHECK(x.get(7) == 0);
  });
}
