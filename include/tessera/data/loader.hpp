// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "tessera/base/status.hpp"
#include "tessera/data/samples.hpp"
#include "tessera/shape/tile.hpp"

namespace tessera::data {

/// Where a run stands in its data; saved in checkpoints. It knows no mesh.
struct Position {
  std::int64_t epoch = 0;
  std::int64_t index = 0;  ///< next sample of the epoch
  std::int64_t step = 0;   ///< batches taken so far
  bool operator==(const Position&) const = default;
};

struct LoaderConfig {
  std::int64_t batch = 0;  ///< rows of one step, over all ranks
  std::int64_t micro_batches = 1;
  std::int64_t epochs = 0;  ///< after which next() gives nothing; 0: endless
  int ahead = 2;            ///< batches that are read before they are asked for
};

/// The inputs of one local rank in one micro-batch: the box that it holds, dense, row-major.
struct TileData {
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> targets;
  std::vector<float> weights;  ///< 1, or 0 where there is no token
};

/// One step's data.
struct Batch {
  Position at;               ///< before this batch
  std::int64_t rows = 0;     ///< with samples; fewer than `batch` at the end of an epoch
  std::int64_t targets = 0;  ///< tokens that count, over all ranks and micro-batches
  double weight = 0;         ///< the sum of all weights, over all ranks and micro-batches
  bool ends_epoch = false;   ///< the next batch begins a new epoch
  std::vector<std::vector<TileData>> tiles;  ///< [micro-batch][local rank]
};

/// Gives one batch after the other, read ahead of use by a thread. Micro-batch j has the rows
/// [j B/M, (j+1) B/M) of the batch. Each process reads only what its local ranks hold. Rows beyond
/// the last sample of an epoch, and columns beyond the end of a stream, have token 0 and weight 0.
class Loader {
 public:
  /// `boxes`: what each local rank holds of a micro-batch [batch / micro_batches, length]: one
  /// interval of rows, one of columns. UserError if micro_batches does not divide the batch.
  Loader(std::shared_ptr<const Samples> samples, const LoaderConfig& config,
         std::vector<Box> boxes);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// The next batch, or nothing after the last epoch. Throws what reading it threw; that may happen
  /// on one rank alone, so see status().
  std::optional<Batch> next();
  /// Whether next() would throw, so that ranks can agree before one of them leaves the others.
  /// Waits until the batch has been read.
  Status status();

  /// Of the batch that next() gives.
  Position position() const;
  /// Goes on from another position. UserError if it lies outside the epoch.
  void seek(const Position& position);

  const Samples& samples() const;
  /// Batches of one epoch.
  std::int64_t batches_per_epoch() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera::data
