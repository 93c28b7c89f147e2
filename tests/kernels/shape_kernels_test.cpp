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
