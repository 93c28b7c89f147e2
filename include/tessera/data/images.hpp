// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "tessera/data/corpus.hpp"

namespace tessera::data {

/// Pictures as JPEGs: in each HDF5 file of data.path /train/image/bytes holds them one after the
/// other, /train/image/ends says where each ends, /train/label and other inputs are arrays
/// (open_arrays); so does /validation. The model's input `image` [height, width, channels] f32 has
/// 1 or 3 channels. In training each picture is cut at random, a function of seed, epoch and index
/// alone; else its middle is taken. UserError naming file, dataset, picture and what fits.
Corpus open_images(const DataConfig& config, const Wanted& wanted);

}  // namespace tessera::data
