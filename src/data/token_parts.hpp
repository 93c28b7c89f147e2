// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/data/dataset.hpp"
#include "tessera/data/vocabulary.hpp"
#include "tessera/io/hdf5.hpp"

/// What token files and pairs files have in common. UserErrors name file and dataset.
namespace tessera::data {

/// Pieces and attributes of the file as a vocabulary; `model_vocab` is its size if the file says
/// none.
Vocabulary read_vocabulary(const std::string& path, const io::FileIndex& index,
                           std::int64_t model_vocab);
/// A list of ids below `vocab`, read where they lie.
DatasetPtr open_ids(const std::string& path, const io::DatasetInfo& dataset, std::int64_t vocab);
/// All of a list of 64-bit integers.
std::vector<std::int64_t> read_integers(const std::string& path, const io::DatasetInfo& dataset);

}  // namespace tessera::data
