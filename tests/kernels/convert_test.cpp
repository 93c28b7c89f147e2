// SPDX-License-Identifier: BSD-3-Clause
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/isa/convert.hpp"
#include "kernels/support.hpp"
#include "support/catch.hpp"

using namespace tessera;

namespace {

float from_bits(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

std::uint16_t rounded(float value) {
  std::uint16_t result = 0;
  TESSERA_ISA_CALL(f32_to_bf16)(&result, &value, 1);
  return result;
}

}  // namespace

TEST_CASE("every bf16 number comes back from f32") {
  test::for_each_variant([](const std::string& variant) {
    INFO(variant);
    std::vector<std::uint16_t> all(65536), back(65536);
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
    std::vector<float> wide(65536);
    TESSERA_ISA_CALL(bf16_to_f32)(wide.data(), all.data(), 65536);
    TESSERA_ISA_CALL(f32_to_bf16)(back.data(), wide.data(), 65536);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (std::isnan(wide[i])) {
        CHECK((back[i] & 0x7FC0) == 0x7FC0);
      } else if (back[i] != all[i]) {
        FAIL("bits " << all[i] << " became " << back[i]);
      }
    }
  });
}

TEST_CASE("f32 rounds to the nearest bf16, ties to even") {
  test::for_each_variant([](const std::string& variant) {
    INFO(variant);
    CHECK(rounded(from_bits(0x3F808000)) == 0x3F80);  // tie, even below
    CHECK(rounded(from_bits(0x3F818000)) == 0x3F82);  // tie, even above
    CHECK(rounded(from_bits(0x3F808001)) == 0x3F81);
    CHECK(rounded(from_bits(0x3F807FFF)) == 0x3F80);
    CHECK(rounded(-0.0f) == 0x8000);
    CHECK(rounded(std::numeric_limits<float>::max()) == 0x7F80);
    CHECK(rounded(std::numeric_limits<float>::infinity()) == 0x7F80);
    CHECK((rounded(from_bits(0x7F800001)) & 0x7FC0) == 0x7FC0);  // a NaN stays one
  });
}
