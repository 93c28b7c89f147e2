// SPDX-License-Identifier: BSD-3-Clause
#include "ini_file.hpp"

#include <algorithm>
#include <boost/program_options.hpp>
#include <map>
#include <sstream>

#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"
#include "value.hpp"

namespace tessera::config {
namespace {

// Boost cuts every line at any `#`. Those that are part of a value travel under this byte.
constexpr char kHash = '\x01';

/// The line without its comment: `#` at its start or behind a blank, outside quotes.
std::string without_comment(const std::string& line) {
  if (trim(line).starts_with('#')) return "";
  const auto equals = line.find('=');
  const auto first =
      equals == std::string::npos ? equals : line.find_first_not_of(" \t", equals + 1);
  const bool in_quotes = first != std::string::npos && line[first] == '"';
  std::size_t begin = 0;
  if (in_quotes) {
    std::size_t close = first + 1;
    while (close < line.size() && line[close] != '"') close += line[close] == '\\' ? 2 : 1;
    begin = close < line.size() ? close : 0;  // without a closing quote the first is a character
  }
  for (std::size_t i = begin; i < line.size(); ++i)
    if (line[i] == '#' && (i == 0 || line[i - 1] == ' ' || line[i - 1] == '\t'))
      return line.substr(0, i);
  return line;
}

/// Refuses the bytes of other kinds of files (binary, UTF-16, lines that end with CR alone).
void check_is_text(std::string_view line, const std::string& place) {
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  for (char c : line)
    check_user(static_cast<unsigned char>(c) >= 0x20 || c == '\t', place, ": holds byte ",
               static_cast<int>(c), "; a deck is text in UTF-8 whose lines end with LF or CRLF");
}

struct Scan {
  std::string text;  ///< what Boost parses
  std::map<std::string, int> lines;
};

/// Finds the line of each key and refuses what Boost would take silently.
Scan scan(std::string_view text, const std::string& path) {
  Scan result;
  std::string section;
  std::map<std::string, int> sections;
  std::istringstream in{std::string(text)};
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    const std::string place = concat(path, ":", number);
    check_is_text(line, place);
    const std::string whole = trim(without_comment(line));
    if (whole.empty()) continue;
    if (whole.front() == '[') {
      check_user(whole.back() == ']' && whole.size() > 2, place, ": '", whole,
                 "' is no section: write [name]");
      section = trim(whole.substr(1, whole.size() - 2));
      const auto [other, is_new] = sections.emplace(section, number);
      check_user(is_new, place, ": section [", section, "] is opened a second time, first in line ",
                 other->second);
      result.text += "[" + section + "]\n";
      continue;
    }
    const auto equals = whole.find('=');
    check_user(equals != std::string::npos, place, ": '", whole,
               "' is not of the form key = value");
    const std::string name = trim(whole.substr(0, equals));
    check_user(!name.empty(), place, ": no key in front of '='");
    const std::string key = section.empty() ? name : section + "." + name;
    const auto [other, is_new] = result.lines.emplace(key, number);
    check_user(is_new, place, ": '", key, "' is given a second time, first in line ",
               other->second);
    std::string safe = whole;
    std::replace(safe.begin(), safe.end(), '#', kHash);
    result.text += safe + "\n";
  }
  return result;
}

}  // namespace

std::vector<IniEntry> read_ini(std::string_view text, const std::string& path) {
  if (text.substr(0, 3) == "\xEF\xBB\xBF") text.remove_prefix(3);
  const Scan scanned = scan(text, path);
  namespace po = boost::program_options;
  const po::options_description none;
  std::vector<IniEntry> entries;
  try {
    std::istringstream in(scanned.text);
    for (const auto& option : po::parse_config_file(in, none, true).options) {
      std::string value = option.value.empty() ? "" : option.value.front();
      std::replace(value.begin(), value.end(), kHash, '#');
      const auto line = scanned.lines.find(option.string_key);
      entries.push_back(
          {option.string_key, unquoted(value), line == scanned.lines.end() ? 0 : line->second});
    }
  } catch (const po::error& error) {
    throw UserError(concat(path, ": ", error.what()));
  }
  return entries;
}

}  // namespace tessera::config
