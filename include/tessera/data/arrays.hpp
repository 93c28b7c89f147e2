// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <string>

#include "tessera/data/column.hpp"
#include "tessera/data/corpus.hpp"
#include "tessera/io/hdf5.hpp"

namespace tessera::data {

/// Named arrays of HDF5 files: for each input of the model a dataset /train/<input> [samples, its
/// dims…], and /validation/<input> if there are samples to validate on. Integers and f32,
/// contiguous; the file's dims may be written with or without dims of size 1, and flat where the
/// model's have one dim. An input f32 is (stored - offset) x factor, with attributes `offset` (0)
/// and `factor` (1) of the dataset; "weights" that no dataset gives are 1. Each entry of data.path
/// is a file, with a weight if wanted. UserError naming file, dataset and what fits.
Corpus open_arrays(const DataConfig& config, const Wanted& wanted);

/// Opens one input's column: the dataset, or what begins with its name, or null if the file has
/// none.
using ColumnOpener = std::function<ColumnPtr(const std::string& path, const io::FileIndex& index,
                                             const std::string& name, const Field& field)>;
ColumnPtr open_array_column(const std::string& path, const io::FileIndex& index,
                            const std::string& name, const Field& field);
/// The same as open_arrays with columns of any kind.
Corpus open_columns(const DataConfig& config, const Wanted& wanted,
                    const ColumnOpener& open_column);

/// Random inputs for any model: f32 in [-1, 1), integers below their limit (2 if they have none),
/// weights 1; data.random_tokens samples an epoch.
Corpus open_random_arrays(const DataConfig& config, const Wanted& wanted);

}  // namespace tessera::data
