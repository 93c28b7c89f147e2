// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// What only the build knows. The constants come from the configure step; the commit is asked for
// anew by every build, in a file of its own so that a commit recompiles nothing else.
namespace tessera::base::build {

extern const char* const kVersion;
extern const char* const kFlags;
extern const char* const kSourceFolder;

const char* git_commit();

}  // namespace tessera::base::build
