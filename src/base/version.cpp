// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/base/version.hpp"

#include <unistd.h>

#include <array>
#include <filesystem>
#include <system_error>

#include "base/version_build.hpp"

namespace tessera::base {

namespace fs = std::filesystem;

namespace {

std::vector<std::string> existing(const fs::path& root, const std::vector<std::string>& names) {
  std::vector<std::string> folders;
  for (const std::string& name : names) {
    std::error_code ignored;
    if (fs::is_directory(root / name, ignored)) folders.push_back((root / name).string());
  }
  return folders;
}

/// The prefix of the installed tree that this program runs from; empty if it runs from elsewhere.
fs::path installed_prefix() {
  std::error_code failed;
  const fs::path program = fs::read_symlink("/proc/self/exe", failed);
  if (failed || program.parent_path().filename() != "bin") return {};
  const fs::path prefix = program.parent_path().parent_path();
  return fs::is_directory(prefix / "include/tessera", failed) ? prefix : fs::path{};
}

}  // namespace

std::string version() {
  return build::kVersion;
}

std::string git_commit() {
  return build::git_commit();
}

std::string build_flags() {
  return build::kFlags;
}

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

std::vector<std::string> source_text_folders() {
  const fs::path prefix = installed_prefix();
  // Not all of share/tessera: runs of its decks lie there, too.
  if (!prefix.empty())
    return existing(prefix, {"include/tessera", "share/tessera/input", "share/tessera/jobs",
                             "share/tessera/tools"});
  return existing(build::kSourceFolder, {"include", "src", "docs", "input"});
}

}  // namespace tessera::base
