// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/data/samples.hpp"

namespace tessera::data {

/// The arrays of one sample, zero at first, for a function to fill: whole, dense, row-major.
class WholeSample {
 public:
  explicit WholeSample(const std::vector<Field>& fields);

  /// Error unless the field is there and of that dtype.
  std::span<float> f32(const std::string& field);
  std::span<std::int32_t> i32(const std::string& field);
  const std::vector<std::byte>& bytes(std::size_t field) const { return arrays_[field]; }

 private:
  std::span<std::byte> array(const std::string& field, DType dtype);

  const std::vector<Field>& fields_;
  std::vector<std::vector<std::byte>> arrays_;
};

/// Samples that a function makes: the shortest way to an input pipeline of one's own.
struct Generator {
  std::vector<Field> fields;  ///< "weights" [] is added (1 for each sample) unless it is among them
  std::int64_t per_epoch = 0;  ///< samples
  /// Fills the sample `index` of an epoch, a function of both; called from several threads.
  std::function<void(std::int64_t epoch, std::int64_t index, WholeSample& sample)> make;
};

/// A rank that holds a part of a sample makes all of it and keeps the part. UserError if there are
/// no samples.
std::shared_ptr<const Samples> generated_samples(Generator generator);

}  // namespace tessera::data
