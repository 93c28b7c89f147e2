// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/base/json.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "tessera/base/text.hpp"

namespace tessera {

namespace {

/// Bytes of the character of UTF-8 that begins at `at`; 0 if none does (RFC 3629: no overlong
/// forms, no surrogates, nothing above U+10FFFF).
std::size_t utf8_length(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0u;
  };
  const unsigned first = byte(0), second = byte(1);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  const bool overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  const bool beyond = (first == 0xED && second >= 0xA0) || (first == 0xF4 && second >= 0x90);
  return overlong || beyond ? 0 : length;
}

}  // namespace

void JsonWriter::separate() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (first_.empty()) return;
  if (!first_.back()) text_ += ", ";
  first_.back() = false;
}

void JsonWriter::quote(std::string_view text) {
  text_ += '"';
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    const auto byte = static_cast<unsigned char>(c);
    const std::size_t length = utf8_length(text, i);
    if (length == 0) {
      text_ += "\\ufffd";  // what stands for bytes that are no text
    } else if (c == '"' || c == '\\') {
      text_ += '\\';
      text_ += c;
    } else if (c == '\n') {
      text_ += "\\n";
    } else if (byte < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", byte);
      text_ += escape;
    } else {
      text_ += text.substr(i, length);
    }
    i += std::max<std::size_t>(1, length);
  }
  text_ += '"';
}

JsonWriter& JsonWriter::begin_object() {
  separate();
  text_ += '{';
  first_.push_back(true);
  return *this;
}
JsonWriter& JsonWriter::end_object() {
  first_.pop_back();
  text_ += '}';
  return *this;
}
JsonWriter& JsonWriter::begin_array() {
  separate();
  text_ += '[';
  first_.push_back(true);
  return *this;
}
JsonWriter& JsonWriter::end_array() {
  first_.pop_back();
  text_ += ']';
  return *this;
}
JsonWriter& JsonWriter::key(std::string_view name) {
  separate();
  quote(name);
  text_ += ": ";
  after_key_ = true;
  return *this;
}
JsonWriter& JsonWriter::value(std::string_view text) {
  separate();
  quote(text);
  return *this;
}
JsonWriter& JsonWriter::value(double number) {
  separate();
  text_ += std::isfinite(number) ? format_double(number) : "null";
  return *this;
}
JsonWriter& JsonWriter::value(std::int64_t number) {
  separate();
  text_ += std::to_string(number);
  return *this;
}
JsonWriter& JsonWriter::value(bool flag) {
  separate();
  text_ += flag ? "true" : "false";
  return *this;
}

}  // namespace tessera
