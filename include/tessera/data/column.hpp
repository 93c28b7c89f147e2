// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/data/digest.hpp"
#include "tessera/data/file_set.hpp"
#include "tessera/data/samples.hpp"
#include "tessera/io/hdf5.hpp"

namespace tessera::data {

/// Which sample of a file is read, and what for: a picture is cut anew in each epoch of training.
struct Draw {
  std::int64_t sample = 0;
  std::int64_t epoch = 0;
  std::int64_t index = 0;  ///< of the epoch
  bool training = false;
};

/// One input's values of all samples of a file, read at their place in it.
class Column {
 public:
  virtual ~Column() = default;
  virtual std::int64_t samples() const = 0;
  /// Writes the part `box` of a sample's value, dense, in the field's dtype. May be called from
  /// several threads at once. UserError for content that is no such value.
  virtual void read(const Draw& draw, const Interval* box, void* out) const = 0;
  virtual Digest digest() const = 0;
};
using ColumnPtr = std::shared_ptr<const Column>;

/// Numbers of a dataset.
class ArrayColumn final : public Column {
 public:
  /// `dataset` holds [samples, field's dims…].
  ArrayColumn(const std::string& path, const io::DatasetInfo& dataset, Field field);

  std::int64_t samples() const override { return samples_; }
  void read(const Draw& draw, const Interval* box, void* out) const override;
  Digest digest() const override;

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
