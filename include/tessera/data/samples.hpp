// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tessera/data/digest.hpp"
#include "tessera/shape/tensor_spec.hpp"
#include "tessera/shape/tile.hpp"

namespace tessera::data {

/// An array of which each sample has one: "tokens" [length] i32, "image" [height, width, channels]
/// f32, "label" [] i32. An input of a model is one of them for each row of the batch.
struct Field {
  std::string name;
  TensorSpec spec;         ///< of one sample: without the dim "batch"; i32 or f32
  std::int64_t limit = 0;  ///< integers must stay below it; 0: any
};

/// The samples of a data source in the order in which epochs take them. What sample `index` of an
/// epoch is must not depend on who asks: so every mesh trains on the same batches.
class Samples {
 public:
  virtual ~Samples() = default;

  virtual const std::vector<Field>& fields() const = 0;
  /// Samples of one epoch.
  virtual std::int64_t per_epoch() const = 0;

  /// What a sample counts for: its targets, and the sum of their weights.
  struct Count {
    std::int64_t targets = 0;
    double weight = 0;
  };
  virtual Count count(std::int64_t epoch, std::int64_t index) const = 0;

  /// The part `box` of a field (an index into fields()); `out` takes it dense, row-major.
  struct Part {
    std::size_t field = 0;
    const Interval* box = nullptr;  ///< one interval for each dim of the field
    void* out = nullptr;            ///< zeroed; what stays zero need not be written
  };
  /// Reads parts of one sample. May be called from several threads at once; uses neither MPI nor
  /// HDF5. UserError for content that is out of bounds, Error if a file cannot be read any more.
  virtual void read(std::int64_t epoch, std::int64_t index, std::span<const Part> parts) const = 0;

  /// Identifies content and how it is cut (not the order). Reads the data.
  virtual Digest digest() const = 0;
  /// How much there is in all, counted in unit().
  virtual std::int64_t size() const = 0;
  /// What targets are: "tokens", "samples", "images".
  virtual std::string unit() const = 0;
  /// Targets of a sample at most.
  virtual std::int64_t targets_per_sample() const = 0;
};

/// Elements of the field "weights": what a sample of arrays counts for at most; 1 without it.
std::int64_t weights_of(const std::vector<Field>& fields);
/// What targets are: "tokens" where samples have tokens, "images" where each has one picture, else
/// "samples".
std::string unit_of(const std::vector<Field>& fields);
/// Index of a field; Error if there is none of that name.
std::size_t field_index(const Samples& samples, const std::string& name);

}  // namespace tessera::data
