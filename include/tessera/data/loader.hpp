// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
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

/// The position so many batches of `batch` samples after another one, where epochs have
/// `per_epoch` samples.
Position advance(Position at, std::int64_t batches, std::int64_t batch, std::int64_t per_epoch);

struct LoaderConfig {
  std::int64_t batch = 0;  ///< rows of one step, over all ranks
  std::int64_t micro_batches = 1;
  std::int64_t epochs = 0;    ///< after which next() gives nothing; 0: endless
  int ahead = 2;              ///< batches that are read before they are asked for
  int threads = 1;            ///< that read the samples of a batch
  std::int64_t replicas = 0;  ///< > 0: inputs have a dim of replicas in front (RowShares)
  std::int64_t stride = 1;    ///< takes each stride-th batch: the others are other groups'
  std::int64_t share = 0;     ///< takes the micro-batches share, share + shares, …
  std::int64_t shares = 1;
};

/// An input that is loaded: a field of the samples, and what each local rank holds of it in a
/// micro-batch: boxes over [batch / micro_batches, the field's dims…], or, with replicas,
/// [replicas, rows of a replica, the field's dims…].
struct LoadedInput {
  std::string name;
  std::vector<Box> boxes;  ///< [local rank]
};

/// The inputs of one local rank in one micro-batch, in the order of the loader's inputs: the box
/// that it holds of each, dense, row-major, in the field's dtype.
struct TileData {
  std::vector<std::vector<std::byte>> inputs;

  /// Elements of an input: std::int32_t or float, as its dtype is.
  template <class Element>
  std::span<const Element> as(std::size_t input) const {
    const auto& bytes = inputs.at(input);
    return {reinterpret_cast<const Element*>(bytes.data()), bytes.size() / sizeof(Element)};
  }
};

/// One step's data.
struct Batch {
  Position at;               ///< before this batch
  std::int64_t rows = 0;     ///< with samples; fewer than `batch` at the end of an epoch
  std::int64_t targets = 0;  ///< that count, over all ranks and micro-batches
  double weight = 0;         ///< the sum of all weights, over all ranks and micro-batches
  bool ends_epoch = false;   ///< the next batch begins a new epoch
  std::int64_t share = 0;    ///< tiles are of the micro-batches share, share + shares, …
  std::int64_t shares = 1;
  std::vector<std::vector<TileData>> tiles;  ///< [micro-batch that was asked for][local rank]
};

/// Gives one batch after the other, read ahead of use by a thread. Micro-batch j has the rows
/// [j B/M, (j+1) B/M) of the batch, or of each replica's share. Each process reads only what its
/// local ranks hold. Rows beyond the last sample of an epoch are zero, their weights too, and so
/// are places of replicas that have fewer rows than others.
class Loader {
 public:
  /// UserError if micro_batches does not divide the batch (without replicas).
  Loader(std::shared_ptr<const Samples> samples, const LoaderConfig& config,
         std::vector<LoadedInput> inputs);
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
