// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/data/dataset.hpp"
#include "tessera/data/vocabulary.hpp"

namespace tessera::data {

/// What an HDF5 token file holds (written by tools/prepare_text.py, or by anything else that stores
/// ids in a contiguous dataset /tokens/train or /tokens).
struct TokenFile {
  DatasetPtr train;
  DatasetPtr validation;  ///< null if the file has no /tokens/validation
  Vocabulary vocabulary = Vocabulary::bytes();
};

/// Opens a token file; HDF5 is used here only (on the calling thread), reading tokens goes past it.
/// `vocab`: ids must stay below it as well as below the file's own vocabulary (0: only that).
/// UserError naming file and dataset: no such file or dataset, chunked or compressed, big-endian,
/// not 1-D integers, vocabulary missing or too large.
TokenFile open_token_file(const std::string& path, std::int64_t vocab);

}  // namespace tessera::data
