// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/base/error.hpp"
#include "tessera/config/deck.hpp"

namespace tessera::config {

bool CommandLine::has(std::string_view flag) const {
  for (const auto& given : flags)
    if (given == flag) return true;
  return text_of(flag).has_value();
}

std::optional<std::string> CommandLine::text_of(std::string_view flag) const {
  const std::string start = std::string(flag) + "=";
  for (const auto& given : flags)
    if (given.rfind(start, 0) == 0) return given.substr(start.size());
  return std::nullopt;
}

CommandLine parse_command_line(const std::vector<std::string>& arguments) {
  CommandLine line;
  for (const auto& argument : arguments) {
    if (argument.rfind("--", 0) == 0 && argument.size() > 2) {
      const std::string name = argument.substr(2, argument.find('=') - 2);
      const bool is_setting = name.find('.') != std::string::npos;
      if (is_setting)
        line.settings.push_back(argument);
      else
        line.flags.push_back(argument.substr(2));
    } else if (argument.size() > 1 && argument.front() == '-') {
      throw UserError(concat("'", argument, "' is no option: write --section.key=value"));
    } else if (line.verb.empty()) {
      line.verb = argument;
    } else {
      line.files.push_back(argument);
    }
  }
  return line;
}

}  // namespace tessera::config
