// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/base/json.hpp"

#include <limits>

#include "support/catch.hpp"

using namespace tessera;

namespace {

std::string quoted(std::string_view text) {
  JsonWriter json;
  return json.value(text).text();
}

}  // namespace

TEST_CASE("objects and lists with commas; numbers that JSON lacks are null") {
  JsonWriter json;
  json.begin_object().key("a").value(1).key("b").begin_array().value(true).value(0.5);
  json.value(std::numeric_limits<double>::quiet_NaN()).end_array().key("c").value("x").end_object();
  CHECK(json.text() == R"({"a": 1, "b": [true, 0.5, null], "c": "x"})");
}

TEST_CASE("text is escaped, and what is no UTF-8 is replaced, so every line can be parsed") {
  CHECK(quoted("a\"b\\c\nd\x01") == R"("a\"b\\c\nd\u0001")");
  CHECK(quoted("\x7f\u00fc\u20ac\U0001F600") == "\"\x7f\u00fc\u20ac\U0001F600\"");
  // Alone, cut off, overlong, a surrogate, beyond U+10FFFF, a byte that never occurs.
  for (const char* bad : {"\x80", "\xc3", "\xe2\x82", "\xf0\x9f\x98", "\xc0", "\xfe"})
    CHECK(quoted(bad).find_first_of("\x80\xc3\xe2\xf0\xc0\xfe") == std::string::npos);
  CHECK(quoted("a\xff z") == R"("a\ufffd z")");
  CHECK(quoted("\xc0\xaf") == R"("\ufffd\ufffd")");
  CHECK(quoted("\xed\xa0\x80") == R"("\ufffd\ufffd\ufffd")");
  CHECK(quoted("\xf4\x90\x80\x80") == R"("\ufffd\ufffd\ufffd\ufffd")");
  CHECK(quoted("\xc3(\xc3\xa9") == "\"\\ufffd(\xc3\xa9\"");
}
