// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

namespace tessera::base {

/// The release, e.g. "0.1.0".
std::string version();

/// The commit that the library was built from, "-dirty" behind it if files differed from it;
/// "unknown" if it was not built from a git checkout.
std::string git_commit();

/// Compiler with version, build type and sanitizers: "GNU 12.2.0, Release". Two runs can only be
/// expected to be bitwise equal if this and git_commit() are equal.
std::string build_flags();

/// The name of this machine as the system gives it.
std::string host_name();

/// Folders that hold Tessera's own text, on which a model trains that was given no data. A program
/// that runs from an installed tree gets that tree's headers and decks; any other gets the source
/// tree that it was built from. Empty if neither is there any more.
std::vector<std::string> source_text_folders();

}  // namespace tessera::base
