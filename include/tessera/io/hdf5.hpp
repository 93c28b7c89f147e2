// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tessera/base/attributes.hpp"

/// What Tessera needs of HDF5, without hdf5.h: HDF5 lays out and describes files; the elements
/// themselves are read and written at their file offset with POSIX calls, by any thread or rank.
/// Call these functions from the main thread only (parallel HDF5 is not thread-safe).
namespace tessera::io {

/// Element of a dataset: little-endian, as in memory on x86-64.
struct ElementType {
  enum class Kind : std::uint8_t { floating, signed_integer, unsigned_integer, text, other };
  Kind kind = Kind::other;
  int bytes = 0;
  bool operator==(const ElementType&) const = default;
};

struct DatasetInfo {
  std::string path;  ///< "/variables/layer_0/attention/query"
  std::vector<std::int64_t> shape;
  ElementType type;
  /// Position of the first element in the file; -1 if the elements do not lie there one after the
  /// other, as in memory.
  std::int64_t offset = -1;
  /// Why offset is -1: "empty", "chunked", "compact", "external", "big-endian", "not numbers".
  std::string obstacle;
  Attributes attributes;

  std::int64_t size() const;  ///< elements
};

/// All that an HDF5 file says about its datasets, in the order of their paths.
struct FileIndex {
  std::vector<DatasetInfo> datasets;
  std::map<std::string, Attributes> groups;  ///< attributes of each group, "/" included

  const DatasetInfo* find(const std::string& path) const;
  /// Attributes of a group; an empty set if it is not there.
  const Attributes& group(const std::string& path) const;
};

/// Reads the index and closes the file. Attributes may be integers, floats, texts and vectors of
/// integers; others are left out. UserError with the file and HDF5's own reason if the file is
/// missing, truncated, damaged or no HDF5 file.
FileIndex read_index(const std::string& file);

/// Creates (or replaces) a file with all groups, attributes and datasets of an index, space for the
/// elements included, and fills in each dataset's offset. The elements are not written. Metadata
/// are checksummed (HDF5's v110 format). Error with the file and HDF5's reason.
void write_index(const std::string& file, FileIndex& index);

}  // namespace tessera::io
