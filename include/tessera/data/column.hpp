// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/data/file_set.hpp"
#include "tessera/data/samples.hpp"
#include "tessera/io/hdf5.hpp"

namespace tessera::data {

/// One input's values of all samples of a file, read at their place in it.
class Column {
 public:
  /// `dataset` holds [samples, field's dims…].
  Column(const std::string& path, const io::DatasetInfo& dataset, Field field);

  std::int64_t samples() const { return samples_; }
  /// Writes the part `box` of a sample's value, dense, in the field's dtype.
  void read(std::int64_t sample, const Interval* box, void* out) const;
  Digest digest() const;

 private:
  struct Reading;
  void read_block(int dim, std::int64_t first, Reading& reading) const;
  void cut_block(int dim, const unsigned char* bytes, Reading& reading) const;
  void convert(const unsigned char* from, std::int64_t count, Reading& reading) const;
  template <class Stored>
  void convert_as(const unsigned char* from, std::int64_t count, Reading& reading) const;

  Field field_;
  io::ElementType type_;
  std::int64_t samples_;
  double offset_;
  double factor_;
  std::string name_;
  std::vector<std::int64_t> slab_;  // elements of one index of each dim
  FileSet file_;
};

}  // namespace tessera::data
