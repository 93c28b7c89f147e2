// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/data/digest.hpp"
#include "tessera/data/file_set.hpp"
#include "tessera/shape/tile.hpp"

namespace tessera::data {

/// A sequence of token ids, possibly far larger than memory.
class Dataset {
 public:
  virtual ~Dataset() = default;

  /// Number of tokens.
  virtual std::int64_t size() const = 0;
  /// Copies tokens [begin, begin + count) to `out`. May be called from several threads at once;
  /// uses neither MPI nor HDF5. UserError with file and offset for an id outside the vocabulary,
  /// Error if the file cannot be read any more.
  virtual void read(std::int64_t begin, std::int64_t count, std::int32_t* out) const = 0;
  /// What the content is, whatever it is called and wherever it lies. Reads the content, all of it
  /// where it is small and samples of it where it is large.
  virtual Digest digest() const = 0;
  /// What messages call it: a file, a folder.
  virtual std::string name() const = 0;
};

using DatasetPtr = std::shared_ptr<const Dataset>;

/// Ids in memory.
DatasetPtr from_ids(std::vector<std::int32_t> ids, std::string name);
/// The tokens `range` of another dataset.
DatasetPtr slice(DatasetPtr whole, Interval range);
/// Several datasets one after the other.
DatasetPtr concatenate(std::vector<DatasetPtr> parts, std::string name);
/// `size` tokens below `vocab` that are a function of seed and index, drawn when they are read.
DatasetPtr random_tokens(std::int64_t size, std::int64_t vocab, std::uint64_t seed);

/// Ids that lie in files as little-endian unsigned integers of `width` = 1, 2, 4 or 8 bytes. An id
/// of `vocab` or above is a UserError when it is read; `stored_digest` (may be empty) is a digest
/// that the file's writer computed over its whole content.
DatasetPtr file_tokens(FileSet files, int width, std::int64_t vocab, std::string name,
                       const std::string& stored_digest = "");

}  // namespace tessera::data
