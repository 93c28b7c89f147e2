// SPDX-License-Identifier: BSD-3-Clause
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "kernels/support.hpp"
#include "support/catch.hpp"
#include "tessera/program/workspace.hpp"

using namespace tessera;
using test::TestTensor;

namespace {

constexpr std::int64_t kVocab = 23;
constexpr std::int64_t kWidth = 10;  // 5 x 2

struct Types {
  DType table, vectors;
};
const Types kTypes[] = {{DType::f32, DType::f32},
                        {DType::f64, DType::f64},
                        {DType::bf16, DType::bf16},
                        {DType::f32, DType::bf16},
                        {DType::bf16, DType::f32}};

TestTensor make_ids() {
  TestTensor ids(DType::i32, {9, 7});
  std::mt19937 random(2);
  ids.fill([&](auto) { return std::uniform_int_distribution<int>(0, kVocab - 1)(random); });
  return ids;
}

}  // namespace

TEST_CASE("a lookup in parts of the vocabulary adds up to the whole lookup") {
  const TestTensor ids = make_ids();
  for (const Types& types : kTypes) {
    test::for_each_variant([&](const std::string& variant) {
      INFO(variant << ", " << name_of(types.table) << " to " << name_of(types.vectors));
      for (const std::int64_t border : {0, 8, 23}) {
        std::vector<double> sum(63 * kWidth);
        for (const int part : {0, 1}) {
          const std::int64_t begin = part == 0 ? 0 : border, end = part == 0 ? border : kVocab;
          TestTensor table(types.table, {end - begin, 5, 2}, {begin, 0, 0}, {kVocab, 5, 2});
          table.fill([&](std::int64_t i) { return static_cast<double>(begin * kWidth + i); });
          TestTensor out(types.vectors, {9, 7, 5, 2});
          out.fill([](auto) { return -1; });
          test::run_kernel("embedding_forward", {}, {table.tile(), ids.tile()}, {out.tile()});
          for (std::int64_t i = 0; i < out.size(); ++i) {
            sum[static_cast<std::size_t>(i)] += out.get(i);
          }
        }
        for (std::int64_t i = 0; i < 63 * kWidth; ++i) {
          const double want = ids.get(i / kWidth) * kWidth + static_cast<double>(i % kWidth);
          REQUIRE(sum[static_cast<std::size_t>(i)] == want);
        }
      }
    });
  }
}

TEST_CASE("gradients of equal ids add up, in parts and whole, over and over again") {
  const TestTensor ids = make_ids();
  for (const Types& types : kTypes) {
    TestTensor dout(types.vectors, {9, 7, 5, 2});
    dout.fill([](std::int64_t i) { return static_cast<double>((i * 37) % 16) / 8 - 1; });
    std::vector<double> want(kVocab * kWidth);
    for (std::int64_t i = 0; i < dout.size(); ++i) {
      want[static_cast<std::size_t>(ids.get(i / kWidth)) * kWidth +
           static_cast<std::size_t>(i % kWidth)] += dout.get(i);
    }
    test::for_each_variant([&](const std::string& variant) {
      INFO(variant << ", " << name_of(types.vectors) << " to " << name_of(types.table));
      for (const std::int64_t begin : {0, 9}) {
        const std::int64_t end = begin == 0 ? kVocab : 15;
        TestTensor dtable(types.table, {end - begin, 5, 2}, {begin, 0, 0}, {kVocab, 5, 2});
        dtable.fill([](auto) { return 3; });
        const test::GuardedWorkspace room(program::embedding_backward_workspace(ids.size()));
        test::run_kernel("embedding_backward", {{"accumulate", std::int64_t{1}}},
                         {ids.tile(), dout.tile()}, {dtable.tile()}, room.data());
        // Sums of eighths are exact in f32 and, this small, nearly so in bf16.
        const double tolerance = types.table == DType::bf16 ? 0.01 : 0;
        for (std::int64_t i = 0; i < dtable.size(); ++i) {
          const double sum = 3 + want[static_cast<std::size_t>(begin * kWidth + i)];
          REQUIRE(std::fabs(dtable.get(i) - sum) <= tolerance * (1 + std::fabs(sum)));
        }
        test::run_kernel("embedding_backward", {{"accumulate", std::int64_t{0}}},
                         {ids.tile(), dout.tile()}, {dtable.tile()}, room.data());
        for (std::int64_t i = 0; i < dtable.size(); ++i) {
          const double sum = want[static_cast<std::size_t>(begin * kWidth + i)];
          REQUIRE(std::fabs(dtable.get(i) - sum) <= tolerance * (1 + std::fabs(sum)));
        }
      }
    });
  }
}

TEST_CASE("no ids, no vocabulary, no width") {
  TestTensor table(DType::f32, {4, 3}), ids(DType::i32, {0}), out(DType::f32, {0, 3}),
      none(DType::f32, {0, 3}), some_ids(DType::i32, {2}), some(DType::f32, {2, 3}),
      thin(DType::f32, {4, 0}), thin_out(DType::f32, {2, 0});
  some_ids.fill([](auto) { return 1; });
  test::for_each_variant([&](const std::string& variant) {
    INFO(variant);
    test::run_kernel("embedding_forward", {}, {table.tile(), ids.tile()}, {out.tile()});
    test::run_kernel("embedding_forward", {}, {none.tile(), some_ids.tile()}, {some.tile()});
    CHECK(some.get(5) == 0);
    test::run_kernel("embedding_forward", {}, {thin.tile(), some_ids.tile()}, {thin_out.tile()});
    table.fill([](auto) { return 7; });
    test::run_kernel("embedding_backward", {{"accumulate", std::int64_t{0}}},
                     {ids.tile(), out.tile()}, {table.tile()});
    CHECK(table.get(11) == 0);
  });
}
