// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/config/schema.hpp"

namespace tessera::config {

/// One assignment as the user wrote it.
struct Assignment {
  std::string key;     ///< "section.key"
  std::string value;   ///< may be empty: an empty value is a value
  std::string origin;  ///< "lm.ini:12", or "command line"
  std::string folder;  ///< what relative paths in the value start from
};

/// A deck: an INI file (Boost.Program_options) and settings of the command line, which win.
///   [section]
///   key = value   # a comment starts at a `#` that begins a line or follows a blank
/// A value in double quotes may hold blanks at its ends, ` #` and the escapes \n \t \" \\.
class Deck {
 public:
  Deck() = default;

  /// Parses the text of the file at `path`, which serves messages and relative paths. Accepts CRLF
  /// and a byte order mark. UserError with file and line: no `key = value`, a key twice, a section
  /// opened twice.
  static Deck parse(std::string_view text, const std::string& path);

  /// Adds settings "--section.key=value"; relative paths in them start from the working directory.
  /// UserError: not of this form, a key given two values.
  void set(const std::vector<std::string>& settings);
  /// Adds one setting, as if it stood on the command line.
  void set(const std::string& key, const std::string& value);

  /// The value that `key` has been given.
  std::optional<std::string> find(std::string_view key) const;
  const std::string& path() const { return path_; }
  /// What stands in the file, in its order: for files whose keys are not known beforehand.
  const std::vector<Assignment>& file_entries() const { return file_; }

  /// Gives the fields of the schema their values. UserError at the first illegal one.
  void apply(Schema& schema) const;

 private:
  std::string path_;
  std::vector<Assignment> file_;
  std::vector<Assignment> settings_;
};

/// The text of a deck file. UserError, with the names in its folder that are near, if there is no
/// such file.
std::string read_deck_file(const std::string& path);

/// An identity key whose value is another one than in `deck`.
struct Difference {
  std::string key;
  std::string deck_value;
  std::string value;
};

/// The identity keys whose present values differ from those that `deck` gives (its missing keys
/// count as their defaults). `deck` is the text of Schema::resolved() of an earlier run.
std::vector<Difference> identity_differences(const Schema& schema, std::string_view deck);

/// What stands on the command line of `tessera VERB [FILE] [--flag[=text]] [--section.key=value]`.
struct CommandLine {
  std::string verb;
  std::vector<std::string> files;     ///< arguments that are no options
  std::vector<std::string> flags;     ///< options without a section: "json", "explain=logits"
  std::vector<std::string> settings;  ///< "--section.key=value"

  bool has(std::string_view flag) const;
  /// The text behind `flag=`, if the flag is given.
  std::optional<std::string> text_of(std::string_view flag) const;
};

/// Sorts the arguments (without the program's name). UserError for a single dash.
CommandLine parse_command_line(const std::vector<std::string>& arguments);

}  // namespace tessera::config
