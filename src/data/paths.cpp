// SPDX-License-Identifier: BSD-3-Clause
#include "data/paths.hpp"

#include <glob.h>

#include <filesystem>
#include <string_view>
#include <system_error>

#include "tessera/base/error.hpp"
#include "tessera/base/number.hpp"
#include "tessera/base/text.hpp"

namespace tessera::data {

namespace fs = std::filesystem;

std::vector<std::string> expand_paths(const std::string& entry) {
  std::error_code ignored;
  if (entry.find_first_of("*?[") != std::string::npos && !fs::exists(entry, ignored)) {
    glob_t found{};
    const int result = ::glob(entry.c_str(), 0, nullptr, &found);
    std::vector<std::string> paths;
    for (std::size_t i = 0; result == 0 && i < found.gl_pathc; ++i)
      paths.emplace_back(found.gl_pathv[i]);
    ::globfree(&found);
    check_user(!paths.empty(), "data.path: no file fits the pattern '", entry, "'");
    return paths;
  }
  if (fs::exists(entry, ignored)) return {entry};
  const fs::path folder = fs::path(entry).parent_path();
  std::vector<std::string> names;
  for (const auto& neighbour :
       fs::directory_iterator(folder.empty() ? "." : folder.string(), ignored))
    names.push_back(neighbour.path().filename().string());
  throw UserError(concat("data.path: there is no file or folder '", entry, "'",
                         did_you_mean(fs::path(entry).filename().string(), names)));
}

WeightedPath parse_weighted(const std::string& entry) {
  const auto colon = entry.rfind(':');
  std::error_code ignored;
  if (colon == std::string::npos || fs::exists(entry, ignored)) return {entry, 1};
  const std::string text = trim(entry.substr(colon + 1));
  WeightedPath parsed{trim(entry.substr(0, colon)), 0};
  if (!parse_number(text, parsed.weight)) return {entry, 1};
  return parsed;
}

void open_validation(const std::vector<std::string>& entries,
                     const std::function<void(const std::string& entry)>& open) {
  constexpr std::string_view kOther = "data.path: ";
  for (const std::string& entry : entries) {
    try {
      open(entry);
    } catch (const UserError& error) {
      const std::string_view text = error.what();
      if (!text.starts_with(kOther)) throw;
      throw UserError(concat("data.validation: ", text.substr(kOther.size())));
    }
  }
}

}  // namespace tessera::data
