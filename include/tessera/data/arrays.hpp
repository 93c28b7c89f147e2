// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "tessera/data/corpus.hpp"

namespace tessera::data {

/// Named arrays of HDF5 files: for each input of the model a dataset /train/<input> [samples, its
/// dims…], and /validation/<input> if there are samples to validate on. Integers and f32,
/// contiguous; the file's dims may be written with or without dims of size 1, and flat where the
/// model's have one dim. An input f32 is (stored - offset) x factor, with attributes `offset` (0)
/// and `factor` (1) of the dataset; "weights" that no dataset gives are 1. Each entry of data.path
/// is a file, with a weight if wanted. UserError naming file, dataset and what fits.
Corpus open_arrays(const DataConfig& config, const Wanted& wanted);

/// Random inputs for any model: f32 in [-1, 1), integers below their limit (2 if they have none),
/// weights 1; data.random_tokens samples an epoch.
Corpus open_random_arrays(const DataConfig& config, const Wanted& wanted);

}  // namespace tessera::data
