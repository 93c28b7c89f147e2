// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/kernels/copy_box.hpp"

#include <cstring>
#include <random>

#include "kernels/support.hpp"
#include "support/catch.hpp"

using namespace tessera;
using test::exec;

namespace {

using Extents = std::vector<std::int64_t>;

Extents row_major(const Extents& extents) {
  Extents strides(extents.size(), 1);
  for (std::size_t d = extents.size(); d-- > 1;) strides[d - 1] = strides[d] * extents[d];
  return strides;
}

/// Copies a box out of one tensor into another and compares every byte of the target.
void check_box(std::size_t bytes, const Extents& box, const Extents& from_whole,
               const Extents& to_whole, const Extents& from_strides, const Extents& to_strides) {
  std::int64_t from_size = 1, to_size = 1, count = 1;
  for (const auto n : from_whole) from_size *= n;
  for (const auto n : to_whole) to_size *= n;
  for (const auto n : box) count *= n;
  std::vector<unsigned char> from(from_size * bytes), to(to_size * bytes, 0xEE);
  std::mt19937 random(7);
  for (auto& byte : from) byte = static_cast<unsigned char>(random() % 251);
  std::vector<unsigned char> expected = to;
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t rest = i, at_from = 0, at_to = 0;
    for (std::size_t d = box.size(); d-- > 0;) {
      at_from += rest % box[d] * from_strides[d];
      at_to += rest % box[d] * to_strides[d];
      rest /= box[d];
    }
    std::memcpy(&expected[at_to * bytes], &from[at_from * bytes], bytes);
  }
  kernels::copy_box(exec(), to.data(), from.data(), static_cast<int>(box.size()), box.data(),
                    to_strides.data(), from_strides.data(), bytes);
  exec().fence();
  CHECK(to == expected);
}

}  // namespace

TEST_CASE("boxes are copied between tensors of any shape") {
  test::for_each_variant([](const std::string& variant) {
    INFO(variant);
    for (const std::size_t bytes : {1, 2, 4, 8, 12}) {
      check_box(bytes, {3, 4, 5}, {3, 4, 5}, {3, 4, 5}, row_major({3, 4, 5}), row_major({3, 4, 5}));
      check_box(bytes, {2, 3, 4}, {6, 5, 7}, {3, 4, 5}, row_major({6, 5, 7}), row_major({3, 4, 5}));
      check_box(bytes, {3, 4}, {3, 4}, {4, 3}, {4, 1}, {1, 3});
      check_box(bytes, {1, 5, 1}, {5}, {2, 5}, {5, 1, 1}, {5, 1, 1});
      check_box(bytes, {}, {4}, {4}, {}, {});
    }
  });
}

TEST_CASE("an empty box copies nothing") {
  test::for_each_variant([](const std::string&) {
    const Extents box = {3, 0, 2}, strides = {0, 2, 1};
    int to = 5;
    kernels::copy_box(exec(), &to, nullptr, 3, box.data(), strides.data(), strides.data(), 4);
    exec().fence();
    CHECK(to == 5);
  });
}

TEST_CASE("boxes are added and filled") {
  // Rows 1 and 2 of 4, every second of 5 columns.
  const Extents box = {2, 3}, to_strides = {5, 2}, from_strides = {3, 1};
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::i32})
    test::for_each_variant([&](const std::string& variant) {
      INFO(variant << ", " << name_of(dtype));
      test::TestTensor whole(dtype, {4, 5}), part(dtype, {2, 3});
      whole.fill([](std::int64_t i) { return static_cast<double>(i); });
      part.fill([](std::int64_t i) { return static_cast<double>(10 * i); });
      char* second_row = whole.tile().as<char>() + 5 * bytes_of(dtype);
      const auto in_box = [](std::int64_t i) { return i >= 5 && i < 15 && i % 5 % 2 == 0; };
      kernels::add_box(exec(), second_row, part.tile().data, 2, box.data(), to_strides.data(),
                       from_strides.data(), dtype);
      exec().fence();
      for (std::int64_t i = 0; i < 20; ++i)
        CHECK(whole.get(i) ==
              static_cast<double>(i + (in_box(i) ? 10 * ((i / 5 - 1) * 3 + i % 5 / 2) : 0)));
      kernels::fill_box(exec(), second_row, 2, box.data(), to_strides.data(), dtype, -3);
      exec().fence();
      for (std::int64_t i = 0; i < 20; ++i)
        CHECK(whole.get(i) == (in_box(i) ? -3 : static_cast<double>(i)));
    });
}

TEST_CASE("set_zero writes as many bytes as asked") {
  test::for_each_variant([](const std::string&) {
    std::vector<unsigned char> data(130, 0xAB);
    kernels::set_zero(exec(), data.data() + 1, 127);
    kernels::set_zero(exec(), nullptr, 0);
    exec().fence();
    CHECK(data.front() == 0xAB);
    for (int i = 1; i < 128; ++i) CHECK(data[i] == 0);
    CHECK(data[128] == 0xAB);
  });
}
