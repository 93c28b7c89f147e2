// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// Writes one JSON value piece by piece, commas and escapes included:
///   JsonWriter json; json.begin_object().key("step").value(3).end_object(); json.text();
/// NaN and infinities, which JSON lacks, become null.
class JsonWriter {
 public:
  JsonWriter& begin_object();
  JsonWriter& end_object();
  JsonWriter& begin_array();
  JsonWriter& end_array();
  JsonWriter& key(std::string_view name);
  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(double number);
  JsonWriter& value(std::int64_t number);
  JsonWriter& value(int number) { return value(static_cast<std::int64_t>(number)); }
  JsonWriter& value(bool flag);

  const std::string& text() const { return text_; }

 private:
  void separate();
  void quote(std::string_view text);

  std::string text_;
  std::vector<bool> first_;  // of each open object or array: nothing written in it yet
  bool after_key_ = false;
};

}  // namespace tessera
