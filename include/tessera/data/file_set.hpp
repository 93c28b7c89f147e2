// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/data/digest.hpp"

namespace tessera::data {

/// Parts of files, read at any offset as if they lay one after the other. May be read from several
/// threads. Few files are open at once, and nothing is kept in memory, but for sets of more than 64
/// files with less than 64 MiB in all, which are read whole when they are read first.
class FileSet {
 public:
  struct Part {
    std::string path;
    std::int64_t offset = 0;  ///< of the part's first byte in the file
    std::int64_t bytes = 0;
  };
  /// A place in a file.
  struct Place {
    std::string path;
    std::int64_t offset = 0;
  };

  explicit FileSet(std::vector<Part> parts);
  FileSet(FileSet&&) noexcept;
  FileSet& operator=(FileSet&&) noexcept;
  ~FileSet();

  std::int64_t bytes() const;
  const std::vector<Part>& parts() const;
  /// Copies bytes [begin, begin + count). Error naming the file if it cannot be read or has become
  /// shorter.
  void read(std::int64_t begin, std::int64_t count, void* out) const;
  /// Where byte `begin` lies.
  Place place_of(std::int64_t begin) const;
  /// Of sizes and content; of content above 64 MiB only head, tail and windows between them.
  Digest digest() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera::data
