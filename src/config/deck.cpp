// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/config/deck.hpp"

#include <array>
#include <boost/program_options.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "ini_file.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"

namespace tessera::config {
namespace {

namespace fs = std::filesystem;

const Assignment* find_in(const std::vector<Assignment>& list, std::string_view key) {
  for (const auto& assignment : list)
    if (assignment.key == key) return &assignment;
  return nullptr;
}

std::string folder_of(const std::string& path) {
  const std::string folder = fs::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

/// Names in the folder of `path` that are near its own.
std::string names_near(const std::string& path) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder_of(path), ignored))
    if (entry.path().extension() == ".ini") names.push_back(entry.path().filename().string());
  const std::string best = nearest(fs::path(path).filename().string(), names);
  if (best.empty()) return "";
  return " (did you mean '" + (fs::path(path).parent_path() / best).string() + "'?)";
}

}  // namespace

Deck Deck::parse(std::string_view text, const std::string& path) {
  Deck deck;
  deck.path_ = path;
  for (const auto& entry : read_ini(text, path))
    deck.file_.push_back({entry.key, entry.value, concat(path, ":", entry.line), folder_of(path)});
  return deck;
}

void Deck::set(const std::vector<std::string>& settings) {
  namespace po = boost::program_options;
  // An option "--key=" is an error to Boost; here an empty value is a value, so it travels as one
  // byte more.
  std::vector<std::string> marked;
  for (const auto& setting : settings) {
    const auto equals = setting.find('=');
    check_user(equals != std::string::npos, "'", setting, "' has no value: write ", setting,
               "=value, or ", setting, "= for an empty one");
    marked.push_back(setting.substr(0, equals + 1) + "=" + setting.substr(equals + 1));
  }
  try {
    const po::options_description none;
    const auto style =
        po::command_line_style::allow_long | po::command_line_style::long_allow_adjacent;
    const auto parsed =
        po::command_line_parser(marked).options(none).style(style).allow_unregistered().run();
    for (const auto& option : parsed.options) {
      check_user(!option.string_key.empty() && option.value.size() == 1, "'",
                 option.original_tokens.empty() ? "" : option.original_tokens.front(),
                 "' is not of the form --section.key=value");
      set(option.string_key, option.value.front().substr(1));
    }
  } catch (const po::error& error) {
    throw UserError(concat("command line: ", error.what()));
  }
}

void Deck::set(const std::string& key, const std::string& value) {
  // The resolved deck is stored as text and must be readable.
  for (const char c : value)
    check_user(static_cast<unsigned char>(c) >= 0x20 || c == '\t' || c == '\n' || c == '\r',
               "command line: the value of '", key, "' holds byte ", static_cast<int>(c),
               "; values are text in UTF-8");
  const Assignment* earlier = find_in(settings_, key);
  if (earlier && earlier->value == value) return;
  check_user(!earlier, "command line: '", key, "' is given two values, '",
             earlier ? earlier->value : "", "' and '", value, "'");
  settings_.push_back({key, value, "command line", "."});
}

std::optional<std::string> Deck::find(std::string_view key) const {
  for (const auto* list : {&settings_, &file_})
    if (const Assignment* found = find_in(*list, key)) return found->value;
  return std::nullopt;
}

void Deck::apply(Schema& schema) const {
  for (const auto* list : {&file_, &settings_})
    for (const auto& it : *list) schema.assign(it.key, it.value, it.origin, it.folder);
}

std::string read_deck_file(const std::string& path) {
  std::error_code unknown;
  check_user(!fs::is_directory(path, unknown), path, " is a folder, not a deck",
             names_near(path + "/x"));
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  check_user(in.is_open(), "cannot open deck '", path, "': ",
             errno == ENOENT ? "there is no such file" + names_near(path) : std::strerror(errno));
  std::string text;
  std::array<char, 4096> block;
  while (in.read(block.data(), block.size()) || in.gcount() > 0)
    text.append(block.data(), static_cast<std::size_t>(in.gcount()));
  check_user(!in.bad(), "cannot read deck '", path, "': ", std::strerror(errno));
  return text;
}

std::vector<Difference> identity_differences(const Schema& schema, std::string_view deck) {
  const Deck old = Deck::parse(deck, "stored deck");
  std::vector<Difference> differences;
  for (const Key& key : schema.keys()) {
    if (key.role == Role::free) continue;
    const std::string old_value = old.find(key.name).value_or(key.default_text);
    if (old_value != key.text()) differences.push_back({key.name, old_value, key.text()});
  }
  return differences;
}

}  // namespace tessera::config
