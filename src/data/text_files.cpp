// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/data/text_files.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "data/paths.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/hash.hpp"
#include "tessera/base/version.hpp"

namespace tessera::data {

namespace fs = std::filesystem;

namespace {

constexpr std::array<const char*, 6> kOwnKinds = {".hpp", ".cpp", ".md", ".ini", ".py", ".txt"};

bool looks_binary(const fs::path& file) {
  std::array<char, 8192> head;
  std::ifstream in(file, std::ios::binary);
  in.read(head.data(), head.size());
  return std::memchr(head.data(), 0, static_cast<std::size_t>(in.gcount())) != nullptr;
}

bool passed_over(const fs::path& folder) {
  const std::string name = folder.filename().string();
  return name.starts_with('.') || name == "build";
}

/// Regular files below a folder in the order of their names; links to folders are not followed.
std::vector<fs::path> files_below(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code failed;
  fs::recursive_directory_iterator walk(folder, failed);
  check_user(!failed, "data.path: cannot list ", folder.string(), ": ", failed.message());
  for (const fs::recursive_directory_iterator end; walk != end; walk.increment(failed)) {
    check_user(!failed, "data.path: cannot list ", folder.string(), ": ", failed.message());
    const fs::path& path = walk->path();
    std::error_code unknown;  // of a link to nowhere, or of what has just been deleted
    if (walk->is_directory(unknown)) {
      if (passed_over(path)) walk.disable_recursion_pending();
    } else if (walk->is_regular_file(unknown) && !path.filename().string().starts_with('.') &&
               walk->file_size(unknown) > 0 && !unknown) {
      files.push_back(path);
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

void append_text_below(const fs::path& folder, std::vector<std::string>& files) {
  for (const fs::path& file : files_below(folder))
    if (!looks_binary(file)) files.push_back(file.string());
}

void check_text_file(const std::string& path) {
  std::error_code unknown;
  check_user(fs::is_regular_file(path, unknown), "data.path: ", path,
             " is no regular file, whose text could be read again");
  std::ifstream in(path, std::ios::binary);
  check_user(in.is_open(), "data.path: cannot open ", path, ": ", std::strerror(errno));
  std::array<char, 8> head{};
  in.read(head.data(), head.size());
  check_user(std::memcmp(head.data(), "\x89HDF\r\n\x1a\n", head.size()) != 0, "data.path: ", path,
             " is an HDF5 file, not text; set data.source = tokens");
}

DatasetPtr byte_files(const std::vector<std::string>& files, std::int64_t vocab,
                      const std::string& name) {
  std::vector<FileSet::Part> parts;
  for (const std::string& file : files) {
    std::error_code failed;
    const auto bytes = fs::file_size(file, failed);
    check_user(!failed, "data.path: cannot read the size of ", file, ": ", failed.message());
    parts.push_back({file, 0, static_cast<std::int64_t>(bytes)});
  }
  return file_tokens(FileSet(std::move(parts)), 1, vocab, name);
}

}  // namespace

std::vector<std::string> find_text_files(const std::string& entry) {
  std::vector<std::string> files;
  for (const std::string& path : expand_paths(entry)) {
    std::error_code unknown;
    if (fs::is_directory(path, unknown)) {
      append_text_below(path, files);
    } else {
      check_text_file(path);
      files.push_back(path);
    }
  }
  check_user(!files.empty(), "data.path: '", entry,
             "' holds no text: its files are empty, binary, hidden or in a folder named build");
  return files;
}

DatasetPtr text_files(const std::string& entry, std::int64_t vocab) {
  DatasetPtr tokens = byte_files(find_text_files(entry), vocab, entry);
  check_user(tokens->size() > 0, "data.path: '", entry, "' is empty");
  return tokens;
}

DatasetPtr own_text(std::int64_t vocab) {
  struct Entry {
    std::uint64_t order;
    std::string path;
  };
  std::vector<Entry> entries;
  for (const std::string& folder : base::source_text_folders()) {
    for (const fs::path& file : files_below(folder)) {
      const std::string kind = file.extension().string();
      if (std::find(kOwnKinds.begin(), kOwnKinds.end(), kind) == kOwnKinds.end()) continue;
      const fs::path relative = fs::relative(file, fs::path(folder).parent_path());
      entries.push_back({hash_text(relative.generic_string()), file.string()});
    }
  }
  check_user(!entries.empty(),
             "data.path is empty, and Tessera's own sources, which it stands for, are neither "
             "where this program was built nor where it is installed; set data.path to a text");
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.order != b.order ? a.order < b.order : a.path < b.path;
  });
  std::vector<std::string> files;
  for (Entry& entry : entries) files.push_back(std::move(entry.path));
  return byte_files(files, vocab, "Tessera's own text");
}

}  // namespace tessera::data
