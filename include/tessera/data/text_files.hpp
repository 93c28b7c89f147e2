// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include "tessera/data/dataset.hpp"

namespace tessera::data {

/// The text files that an entry of data.path stands for, in the order in which they are read: a
/// file is itself; a folder gives its regular files, recursively and sorted by name, without empty
/// and binary ones (a zero byte in the first 8 KiB), hidden files and folders, and folders named
/// `build`; anything with * ? [ is a pattern of such files and folders. UserError, with near names,
/// if there is no such file or nothing in it.
std::vector<std::string> find_text_files(const std::string& entry);

/// The bytes of the text files of an entry one after the other, as ids 0..255.
DatasetPtr text_files(const std::string& entry, std::int64_t vocab);

/// Tessera's own headers, sources, documents and decks as text (base::source_text_folders). Their
/// order mixes the kinds of files, so that a cut-off end is like the rest.
DatasetPtr own_text(std::int64_t vocab);

}  // namespace tessera::data
