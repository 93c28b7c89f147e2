// SPDX-License-Identifier: BSD-3-Clause
#include "value.hpp"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <type_traits>

#include "tessera/base/error.hpp"
#include "tessera/base/number.hpp"
#include "tessera/base/text.hpp"

namespace tessera::config {
namespace {

bool parse_bool(const std::string& text) {
  for (const char* word : {"true", "on", "yes", "1"})
    if (text == word) return true;
  for (const char* word : {"false", "off", "no", "0"})
    if (text == word) return false;
  throw UserError(concat("'", text, "' is not a truth value: write true or false"));
}

double parse_double(const std::string& text) {
  double value = 0;
  check_user(parse_number(text, value), "'", text, "' is not a finite number");
  return value;
}

std::int64_t parse_whole(const std::string& text) {
  std::int64_t value = 0;
  check_user(parse_integer(text, value), "'", text, "' is not a whole number");
  return value;
}

void check_range(const Key& key, double value, const std::string& text) {
  if (!key.has_range || (value >= key.minimum && value <= key.maximum)) return;
  const bool open = key.maximum == std::numeric_limits<double>::infinity();
  throw UserError(open ? concat(text, " is too small: at least ", format_double(key.minimum))
                       : concat(text, " is out of range: ", format_double(key.minimum), " to ",
                                format_double(key.maximum)));
}

void check_choice(const Key& key, const std::string& word) {
  const auto& words = key.choices;
  if (words.empty() || std::find(words.begin(), words.end(), word) != words.end()) return;
  throw UserError(concat("'", word, "' is none of ", join(words, ", "), did_you_mean(word, words)));
}

std::string resolve_path(const std::string& path, const std::string& folder) {
  if (path.empty()) return path;
  const std::filesystem::path whole = std::filesystem::path(folder) / path;
  return std::filesystem::absolute(whole).lexically_normal().string();
}

}  // namespace

void assign_value(const Key& key, const std::string& text, const std::string& folder) {
  const auto finish = [&](const std::string& word) {
    check_choice(key, word);
    return key.is_path ? resolve_path(word, folder) : word;
  };
  std::visit(
      [&](auto* field) {
        using T = std::remove_pointer_t<decltype(field)>;
        if constexpr (std::is_same_v<T, std::string>) {
          *field = finish(text);
        } else if constexpr (std::is_same_v<T, bool>) {
          *field = parse_bool(text);
        } else if constexpr (std::is_same_v<T, double>) {
          const double value = parse_double(text);
          check_range(key, value, text);
          *field = value;
        } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
          std::vector<std::string> words;
          for (const auto& word : split(text, ',')) words.push_back(finish(word));
          *field = words;
        } else {
          const std::int64_t value = parse_whole(text);
          check_range(key, static_cast<double>(value), text);
          check_user(
              value >= std::numeric_limits<T>::min() && value <= std::numeric_limits<T>::max(),
              text, " is too large");
          *field = static_cast<T>(value);
        }
      },
      key.field);
}

std::string Key::text() const {
  return std::visit(
      [](const auto* field) -> std::string {
        using T = std::remove_const_t<std::remove_pointer_t<decltype(field)>>;
        if constexpr (std::is_same_v<T, std::string>)
          return *field;
        else if constexpr (std::is_same_v<T, bool>)
          return *field ? "true" : "false";
        else if constexpr (std::is_same_v<T, double>)
          return format_double(*field);
        else if constexpr (std::is_same_v<T, std::vector<std::string>>)
          return join(*field, ", ");
        else
          return std::to_string(*field);
      },
      field);
}

std::string Key::type_name() const {
  static const char* const names[] = {"text", "integer", "integer", "number", "true|false", "list"};
  return is_path ? (field.index() == 5 ? "paths" : "path") : names[field.index()];
}

std::string quoted_if_needed(const std::string& value) {
  const bool plain = trim(value) == value && value.find_first_of("\n\r\t") == std::string::npos &&
                     value.find(" #") == std::string::npos &&
                     (value.empty() || (value.front() != '#' && value.front() != '"'));
  if (plain) return value;
  std::string out = "\"";
  for (char c : value) {
    switch (c) {
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      default:
        out += c;
    }
  }
  return out + "\"";
}

std::string unquoted(const std::string& value) {
  if (value.size() < 2 || value.front() != '"' || value.back() != '"') return value;
  std::string out;
  for (std::size_t i = 1; i + 1 < value.size(); ++i) {
    if (value[i] != '\\' || i + 2 >= value.size()) {
      out += value[i];
      continue;
    }
    const char c = value[++i];
    out += c == 'n' ? '\n' : c == 'r' ? '\r' : c == 't' ? '\t' : c;
  }
  return out;
}

}  // namespace tessera::config
