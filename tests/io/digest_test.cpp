// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/io/digest.hpp"

#include <vector>

#include "io/checkpoint_support.hpp"
#include "support/catch.hpp"
#include "tessera/base/error.hpp"
#include "tessera/shape/runs.hpp"

using namespace tessera;
using namespace tessera::io;

namespace {

const Shape kShape{{"x", 5}, {"y", 7}, {"z", 3}};
const DType kDTypes[] = {DType::f32, DType::f64, DType::bf16, DType::i32};

std::string whole(DType dtype) {
  return test::box_bytes({"/t", {kShape, dtype}, {}}, whole_box(kShape), 1);
}

}  // namespace

TEST_CASE("digests of tiles add up to the tensor's, however it is cut") {
  for (DType dtype : kDTypes) {
    const Digest expected = digest_tile(dtype, kShape, whole_box(kShape), whole(dtype).data());
    for (std::int64_t parts : {1, 2, 3, 8}) {
      for (int cut = 0; cut < 3; ++cut) {
        Digest sum;
        for (std::int64_t i = 0; i < parts; ++i) {
          Box box = whole_box(kShape);
          box[static_cast<std::size_t>(cut)] = block(kShape[cut].size, parts, i);
          const std::string tile = test::box_bytes({"/t", {kShape, dtype}, {}}, box, 1);
          sum += digest_tile(dtype, kShape, box, tile.data());
        }
        CHECK(sum == expected);
      }
    }
  }
}

TEST_CASE("every flip of one bit and every exchange of two elements changes a digest") {
  for (DType dtype : kDTypes) {
    std::string data = whole(dtype);
    const Digest before = digest_tile(dtype, kShape, whole_box(kShape), data.data());
    int unnoticed = 0;
    for (std::size_t bit = 0; bit < data.size() * 8; ++bit) {
      const auto flip = static_cast<char>(1 << (bit % 8));
      data[bit / 8] = static_cast<char>(data[bit / 8] ^ flip);
      if (digest_tile(dtype, kShape, whole_box(kShape), data.data()).low == before.low) ++unnoticed;
      data[bit / 8] = static_cast<char>(data[bit / 8] ^ flip);
    }
    const std::size_t n = bytes_of(dtype);
    for (std::size_t i = 1; i < 105; ++i) {
      for (std::size_t b = 0; b < n; ++b) std::swap(data[b], data[i * n + b]);
      if (digest_tile(dtype, kShape, whole_box(kShape), data.data()) == before) ++unnoticed;
      for (std::size_t b = 0; b < n; ++b) std::swap(data[b], data[i * n + b]);
    }
    CHECK(unnoticed == 0);
  }
}

TEST_CASE("digests are printed and parsed") {
  const Digest digest{0x0123456789abcdefULL, 0xfULL};
  CHECK(digest.to_string() == "000000000000000f0123456789abcdef");
  CHECK(Digest::parse(digest.to_string()) == digest);
  CHECK_THROWS_AS(Digest::parse("xyz"), UserError);
  CHECK_THROWS_AS(Digest::parse("000000000000000F0123456789abcdef"), UserError);
}

TEST_CASE("runs cover a box once, as long as they can be") {
  struct Row {
    Box box;
    std::size_t runs;
  };
  const Row rows[] = {{{{0, 5}, {0, 7}, {0, 3}}, 1}, {{{1, 4}, {0, 7}, {0, 3}}, 1},
                      {{{1, 4}, {2, 6}, {0, 3}}, 3}, {{{0, 5}, {0, 7}, {1, 2}}, 35},
                      {{{0, 5}, {3, 3}, {0, 3}}, 0}, {{{4, 5}, {6, 7}, {0, 3}}, 1}};
  for (const Row& row : rows) {
    std::vector<std::int64_t> indices;
    std::int64_t local = 0;
    std::size_t runs = 0;
    for_each_run(kShape, row.box, [&](const Run& run) {
      ++runs;
      CHECK(run.local == local);
      local += run.count;
      for (std::int64_t i = 0; i < run.count; ++i) indices.push_back(run.global + i);
    });
    std::vector<std::int64_t> expected;
    for (auto x = row.box[0].begin; x < row.box[0].end; ++x)
      for (auto y = row.box[1].begin; y < row.box[1].end; ++y)
        for (auto z = row.box[2].begin; z < row.box[2].end; ++z)
          expected.push_back((x * 7 + y) * 3 + z);
    CHECK(indices == expected);
    CHECK(runs == row.runs);
  }
}
