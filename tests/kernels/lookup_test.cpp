// SPDX-License-Identifier: BSD-3-Clause
// gather, scatter_add, top_k, scan and range on tiles: both variants, every dtype.
#include <vector>

#include "kernels/support.hpp"
#include "support/catch.hpp"

using namespace tessera;
using test::TestTensor;

namespace {

using Numbers = std::vector<std::int64_t>;
const DType kFloats[] = {DType::f32, DType::f64, DType::bf16};

/// Flat [pick, n, m], ids [n, pick], table [n, row, m] with rows 2 .. 5 of 8 here.
const Attributes kLookup{{"flat", Numbers{0, 1, 2}},
                         {"ids", Numbers{1, 0}},
                         {"table", Numbers{1, 3, 2}},
                         {"dims", Numbers{1}}};

TestTensor make_ids() {
  TestTensor ids(DType::i32, {3, 4});
  ids.fill([](std::int64_t i) { return static_cast<double>((i * 5) % 9 - 1); });
  return ids;
}

}  // namespace

TEST_CASE("gather copies the rows that are here and gives zeros for others") {
  const TestTensor ids = make_ids();
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::i32}) {
    TestTensor table(dtype, {3, 4, 5}, {0, 2, 0}, {3, 8, 5}), flat(dtype, {4, 3, 5});
    table.fill([](std::int64_t i) { return static_cast<double>(i + 1); });
    test::for_each_variant([&](const std::string& variant) {
      INFO(variant << ", " << name_of(dtype));
      flat.fill([](auto) { return -1; });
      test::run_kernel("gather", kLookup, {table.tile(), ids.tile()}, {flat.tile()});
      for (int pick = 0; pick < 4; ++pick)
        for (int n = 0; n < 3; ++n)
          for (int m = 0; m < 5; ++m) {
            const auto row = static_cast<int>(ids.get(n * 4 + pick)) - 2;
            const double want = row < 0 || row >= 4 ? 0 : (n * 4 + row) * 5 + m + 1;
            REQUIRE(flat.get((pick * 3 + n) * 5 + m) == want);
          }
    });
  }
}

TEST_CASE("gather by an index over two dims, 16-bit rows widened") {
  // Table [a:4, m:2, b:3], of which a 1 .. 2 is here; id = b-major over (b, a).
  TestTensor table(DType::bf16, {2, 2, 3}, {1, 0, 0}, {4, 2, 3}), ids(DType::i32, {14});
  TestTensor flat(DType::f32, {14, 2});
  table.fill([](std::int64_t i) { return static_cast<double>(i + 1); });
  ids.fill([](std::int64_t i) { return static_cast<double>(i - 1); });
  test::for_each_variant([&](const std::string& variant) {
    INFO(variant);
    test::run_kernel("gather",
                     {{"flat", Numbers{0, 1}},
                      {"ids", Numbers{0}},
                      {"table", Numbers{2, 1, 3}},
                      {"dims", Numbers{2, 0}}},
                     {table.tile(), ids.tile()}, {flat.tile()});
    for (int i = 0; i < 14; ++i)
      for (int m = 0; m < 2; ++m) {
        const int id = i - 1, b = id / 4, a = id % 4 - 1;
        const bool here = id >= 0 && id < 12 && a >= 0 && a < 2;
        REQUIRE(flat.get(i * 2 + m) == (here ? (a * 2 + m) * 3 + b + 1 : 0));
      }
  });
}

TEST_CASE("scatter_add clears, then adds the rows that are here") {
  const TestTensor ids = make_ids();
  for (const DType dtype : kFloats) {
    const DType sums = dtype == DType::f64 ? DType::f64 : DType::f32;
    TestTensor table(sums, {3, 4, 5}, {0, 2, 0}, {3, 8, 5}), flat(dtype, {4, 3, 5});
    flat.fill([](std::int64_t i) { return static_cast<double>(i + 1); });
    std::vector<double> want(60);
    for (int pick = 0; pick < 4; ++pick)
      for (int n = 0; n < 3; ++n)
        for (int m = 0; m < 5; ++m) {
          const auto row = static_cast<int>(ids.get(n * 4 + pick)) - 2;
          if (row >= 0 && row < 4)
            want[static_cast<std::size_t>((n * 4 + row) * 5 + m)] +=
                flat.get((pick * 3 + n) * 5 + m);
        }
    test::for_each_variant([&](const std::string& variant) {
      INFO(variant << ", " << name_of(dtype));
      table.fill([](auto) { return 9; });
      test::run_kernel("scatter_add", kLookup, {flat.tile(), ids.tile()}, {table.tile()});
      CHECK(table.values() == want);
    });
  }
}

TEST_CASE("top_k of two parts, one of them shorter than k") {
  for (const DType dtype : kFloats) {
    TestTensor left(dtype, {2, 5, 3}, {0, 0, 0}, {2, 6, 3});
    TestTensor right(dtype, {2, 1, 3}, {0, 5, 0}, {2, 6, 3});
    const auto value = [](std::int64_t o, std::int64_t j, std::int64_t i) {
      return static_cast<double>((o * 7 + j * 5 + i * 3) % 4);
    };
    left.fill([&](std::int64_t e) { return value(e / 15, e / 3 % 5, e % 3); });
    right.fill([&](std::int64_t e) { return value(e / 3, 5, e % 3); });
    test::for_each_variant([&](const std::string& variant) {
      INFO(variant << ", " << name_of(dtype));
      TestTensor pairs(DType::f64, {2, 2, 3, 3, 2});
      for (const int part : {0, 1}) {
        TestTensor own(DType::f64, {1, 2, 3, 3, 2});
        test::run_kernel("top_k_pairs", {{"dim", std::int64_t{1}}},
                         {part == 0 ? left.tile() : right.tile()}, {own.tile()});
        for (std::int64_t i = 0; i < own.size(); ++i) pairs.set(part * own.size() + i, own.get(i));
      }
      TestTensor values(dtype, {2, 3, 3}), indices(DType::i32, {2, 3, 3});
      test::run_kernel("top_k_merge", {}, {pairs.tile()}, {values.tile(), indices.tile()});
      for (int o = 0; o < 2; ++o)
        for (int i = 0; i < 3; ++i) {
          std::vector<bool> used(6);
          for (int k = 0; k < 3; ++k) {
            int best = -1;
            for (int j = 0; j < 6; ++j)
              if (!used[static_cast<std::size_t>(j)] &&
                  (best < 0 || value(o, j, i) > value(o, best, i)))
                best = j;
            used[static_cast<std::size_t>(best)] = true;
            REQUIRE(indices.get((o * 3 + i) * 3 + k) == best);
            REQUIRE(values.get((o * 3 + i) * 3 + k) == value(o, best, i));
          }
        }
    });
  }
}

TEST_CASE("scan of the second of three parts, both ways") {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::i32}) {
    // 70 columns side by side: more than the host sums at a time.
    TestTensor x(dtype, {2, 3, 70}), y(dtype, {2, 3, 70});
    x.fill([](std::int64_t i) { return static_cast<double>(i % 5); });
    TestTensor own(DType::f64, {1, 2, 70}, {1, 0, 0}, {3, 2, 70}), all(DType::f64, {3, 2, 70});
    all.fill([](std::int64_t i) { return static_cast<double>(i / 140 + 1); });
    for (const int exclusive : {0, 1})
      for (const int reverse : {0, 1})
        test::for_each_variant([&](const std::string& variant) {
          INFO(variant << ", " << name_of(dtype) << ' ' << exclusive << ' ' << reverse);
          const Attributes attributes{{"dim", std::int64_t{1}},
                                      {"exclusive", std::int64_t{exclusive}},
                                      {"reverse", std::int64_t{reverse}}};
          test::run_kernel("scan_total", attributes, {x.tile()}, {own.tile()});
          test::run_kernel("scan", attributes, {x.tile(), own.tile(), all.tile()}, {y.tile()});
          for (int o = 0; o < 2; ++o)
            for (int c = 0; c < 70; ++c) {
              double sum = reverse ? 3 : 1, total = 0;
              for (int step = 0; step < 3; ++step) {
                const int at = (o * 3 + (reverse ? 2 - step : step)) * 70 + c;
                const double before = sum;
                sum += x.get(at);
                total += x.get(at);
                REQUIRE(y.get(at) == (exclusive ? before : sum));
              }
              REQUIRE(own.get(o * 70 + c) == total);
            }
        });
  }
}

TEST_CASE("range goes on where the tile lies") {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::i32}) {
    TestTensor y(dtype, {4}, {3}, {9});
    test::for_each_variant([&](const std::string& variant) {
      INFO(variant << ", " << name_of(dtype));
      test::run_kernel("range", {{"start", -1.0}, {"step", 2.0}}, {}, {y.tile()});
      CHECK(y.values() == std::vector<double>{5, 7, 9, 11});
    });
  }
}
