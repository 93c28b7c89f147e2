// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include "tessera/io/hdf5.hpp"

namespace tessera::io {

/// A dataset with its elements in memory, row-major.
struct HostArray {
  std::string path;
  std::vector<std::int64_t> shape;
  ElementType type;
  std::vector<char> bytes;
};

/// Writes an HDF5 file of whole arrays on this rank alone: aside, then renamed, so that the file is
/// never there in part. Error with the file and the reason.
void write_arrays(const std::string& file, const std::vector<HostArray>& arrays);

}  // namespace tessera::io
