// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/finite.hpp"

#include <cstdint>
#include <limits>
#include <vector>

#include "support/catch.hpp"

using namespace tessera;
using namespace tessera::train;

TEST_CASE("The first infinite element or NaN is found, in every dtype") {
  for (std::size_t place : {0UL, 1UL, 4095UL, 4096UL, 9999UL}) {
    std::vector<float> f32(10000, std::numeric_limits<float>::max());
    std::vector<double> f64(10000, -std::numeric_limits<double>::max());
    std::vector<std::uint16_t> bf16(10000, 0x7f7f);  // the largest finite one
    CHECK(first_nonfinite(DType::f32, f32.data(), 10000) == -1);
    CHECK(first_nonfinite(DType::f64, f64.data(), 10000) == -1);
    CHECK(first_nonfinite(DType::bf16, bf16.data(), 10000) == -1);
    f32[place] = -std::numeric_limits<float>::infinity();
    f64[place] = std::numeric_limits<double>::quiet_NaN();
    bf16[place] = 0xff80;  // minus infinity
    const auto expected = static_cast<std::int64_t>(place);
    CHECK(first_nonfinite(DType::f32, f32.data(), 10000) == expected);
    CHECK(first_nonfinite(DType::f64, f64.data(), 10000) == expected);
    CHECK(first_nonfinite(DType::bf16, bf16.data(), 10000) == expected);
    CHECK(first_nonfinite(DType::f32, f32.data(), expected) == -1);
  }
}
