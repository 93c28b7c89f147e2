// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera::config {

/// One `key = value` of an INI text, key with its section; the value without quotes.
struct IniEntry {
  std::string key;
  std::string value;
  int line = 0;
};

/// Reads an INI text with Boost.Program_options, after checks that it does not make itself.
/// `path` begins messages. UserError as for Deck::parse.
std::vector<IniEntry> read_ini(std::string_view text, const std::string& path);

}  // namespace tessera::config
