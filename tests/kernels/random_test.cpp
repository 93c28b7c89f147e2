// SPDX-License-Identifier: BSD-3-Clause
#include <cmath>
#include <string>
#include <vector>

#include "kernels/support.hpp"
#include "support/catch.hpp"
#include "tessera/base/philox.hpp"
#include "tessera/kernels/random.hpp"

using namespace tessera;
using test::TestTensor;

namespace {

using Numbers = std::vector<std::int64_t>;

Attributes drop(double rate, std::int64_t batch_dim, std::int64_t total) {
  return {
      {"rate", rate}, {"key", std::int64_t{-77}}, {"batch_dim", batch_dim}, {"batch_total", total}};
}

kernels::Feeds feeds_of(std::int64_t step, std::int64_t micro) {
  kernels::Feeds feeds;
  feeds.step = step;
  feeds.micro = micro;
  return feeds;
}

/// f(tile, box begin) for a few ways to cut [7, 10, 9] into boxes.
template <class Function>
void for_each_box(DType dtype, const Function& f) {
  const Numbers cuts[3] = {{0, 3, 7}, {0, 10}, {0, 4, 4, 9}};
  for (std::size_t i = 0; i + 1 < cuts[0].size(); ++i) {
    for (std::size_t j = 0; j + 1 < cuts[1].size(); ++j) {
      for (std::size_t k = 0; k + 1 < cuts[2].size(); ++k) {
        TestTensor t(
            dtype,
            {cuts[0][i + 1] - cuts[0][i], cuts[1][j + 1] - cuts[1][j], cuts[2][k + 1] - cuts[2][k]},
            {cuts[0][i], cuts[1][j], cuts[2][k]}, {7, 10, 9});
        f(t);
      }
    }
  }
}

std::int64_t place_in_whole(const TestTensor& t, std::int64_t i) {
  const kernels::Tile& tile = t.tile();
  std::int64_t coordinate[3];
  for (int d = 2; d >= 0; --d) {
    coordinate[d] = tile.offset[d] + i % tile.extent[d];
    i /= tile.extent[d];
  }
  return (coordinate[0] * 10 + coordinate[1]) * 9 + coordinate[2];
}

}  // namespace

TEST_CASE("dropout keeps exactly the words at or above the rate") {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    TestTensor x(dtype, {1000}), y(dtype, {1000});
    x.fill([](std::int64_t i) { return static_cast<double>(i % 100 + 1); });
    test::for_each_variant([&](const std::string& variant) {
      INFO(variant << ", " << name_of(dtype));
      test::run_kernel("dropout", drop(0.25, -1, 0), {x.tile()}, {y.tile()}, nullptr,
                       feeds_of(5, 0));
      for (std::int64_t i = 0; i < 1000; ++i) {
        const std::uint32_t word =
            random_word(static_cast<std::uint64_t>(-77), 5, static_cast<std::uint64_t>(i));
        const double want = word >= 0.25 * 4294967296.0 ? x.get(i) / 0.75 : 0.0;
        REQUIRE(std::fabs(y.get(i) - want) <= (dtype == DType::bf16 ? 0.005 : 1e-6) * want);
      }
    });
  }
  CHECK(kernels::dropout_threshold(0) == 0);
  CHECK(kernels::dropout_threshold(0.5) == 0x80000000u);
  CHECK(kernels::dropout_threshold(std::nextafter(1.0, 0.0)) == 0x100000000u);
  CHECK(kernels::dropout_threshold(1e-12) == 1);
}

TEST_CASE("dropout's mask does not depend on tiles or micro-batches, but on the step") {
  TestTensor whole(DType::f32, {7, 10, 9}), ones(DType::f32, {7, 10, 9});
  ones.fill([](auto) { return 1; });
  test::for_each_variant([&](const std::string& variant) {
    INFO(variant);
    const auto feeds = feeds_of(3, 0);
    test::run_kernel("dropout", drop(0.4, -1, 0), {ones.tile()}, {whole.tile()}, nullptr, feeds);
    for_each_box(DType::f32, [&](TestTensor& t) {
      t.fill([](auto) { return 1; });
      test::run_kernel("dropout", drop(0.4, -1, 0), {t.tile()}, {t.tile()}, nullptr, feeds);
      for (std::int64_t i = 0; i < t.size(); ++i) {
        REQUIRE(t.get(i) == whole.get(place_in_whole(t, i)));
      }
    });
    // Three micro-batches of the batch dim in the middle make up a step of 30.
    TestTensor step(DType::f32, {7, 30, 9});
    step.fill([](auto) { return 1; });
    test::run_kernel("dropout", drop(0.4, 1, 30), {step.tile()}, {step.tile()}, nullptr, feeds);
    for (std::int64_t micro = 0; micro < 3; ++micro) {
      for_each_box(DType::f32, [&](TestTensor& t) {
        t.fill([](auto) { return 1; });
        test::run_kernel("dropout", drop(0.4, 1, 30), {t.tile()}, {t.tile()}, nullptr,
                         feeds_of(3, micro));
        for (std::int64_t i = 0; i < t.size(); ++i) {
          const std::int64_t at = place_in_whole(t, i);
          const std::int64_t row = at / 90 * 30 + micro * 10 + at / 9 % 10;
          REQUIRE(t.get(i) == step.get(row * 9 + at % 9));
        }
      });
    }
    TestTensor next(DType::f32, {7, 10, 9});
    test::run_kernel("dropout", drop(0.4, -1, 0), {ones.tile()}, {next.tile()}, nullptr,
                     feeds_of(4, 0));
    CHECK(next.values() != whole.values());
  });
}

TEST_CASE("draws are bit-equal on every tile and have the right moments") {
  for (const std::string id : {"random_normal", "random_uniform"}) {
    const Attributes attributes{{"key", std::int64_t{99}}, {"mean", 0.5}, {"scale", 2.0}};
    TestTensor whole(DType::f32, {7, 10, 9}), many(DType::f64, {200000});
    test::exec();
    test::run_kernel(id, attributes, {}, {whole.tile()});
    test::run_kernel(id, attributes, {}, {many.tile()});
    double sum = 0, squares = 0, cubes = 0, largest = 0;
    for (const double v : many.values()) {
      const double z = (v - 0.5) / 2;
      sum += z, squares += z * z, cubes += z * z * z, largest = std::max(largest, std::fabs(z));
    }
    const double n = 200000;
    CHECK(std::fabs(sum / n) < 0.01);
    CHECK(std::fabs(squares / n - (id == "random_normal" ? 1.0 : 1.0 / 3)) < 0.01);
    CHECK(std::fabs(cubes / n) < 0.03);
    CHECK(largest < (id == "random_normal" ? 6.0 : 1.0));
    CHECK(largest > (id == "random_normal" ? 4.0 : 0.9999));
    test::for_each_variant([&](const std::string& variant) {
      INFO(variant << ", " << id);
      for_each_box(DType::f32, [&](TestTensor& t) {
        test::run_kernel(id, attributes, {}, {t.tile()});
        for (std::int64_t i = 0; i < t.size(); ++i) {
          REQUIRE(t.get(i) == whole.get(place_in_whole(t, i)));
        }
      });
    });
  }
}

TEST_CASE("normal draws follow Box and Muller") {
  const Philox block = philox4x32(5, 17, 0);
  const double u = uniform_of(block.word[0]), v = uniform_of(block.word[1]);
  CHECK(kernels::normal_draw(5, 17) ==
        Approx(std::sqrt(-2 * std::log(u)) * std::cos(2 * M_PI * v)).epsilon(1e-14));
  TestTensor y(DType::f64, {50000});
  std::vector<double> first;
  const Attributes attributes{{"key", std::int64_t{5}}, {"mean", 0.0}, {"scale", 1.0}};
  test::for_each_variant([&](const std::string& variant) {
    INFO(variant);
    test::run_kernel("random_normal", attributes, {}, {y.tile()});
    for (std::int64_t i = 0; i < y.size(); ++i) {
      const double want = kernels::normal_draw(5, static_cast<std::uint64_t>(i));
      REQUIRE(std::fabs(y.get(i) - want) <= 1e-14 * std::fabs(want));
    }
    if (variant == "portable") return;
    if (first.empty()) first = y.values();
    CHECK(y.values() == first);
  });
}

TEST_CASE("fill writes one value in any type") {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::i32}) {
    test::for_each_variant([&](const std::string& variant) {
      INFO(variant << ", " << name_of(dtype));
      TestTensor y(dtype, {3, 5}), none(dtype, {0});
      test::run_kernel("fill", {{"value", -3.0}}, {}, {y.tile()});
      for (const double v : y.values()) CHECK(v == -3);
      test::run_kernel("fill", {{"value", 1.0}}, {}, {none.tile()});
    });
  }
}
