// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/data/loader.hpp"

#include <pthread.h>

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "tessera/base/error.hpp"

namespace tessera::data {
namespace {

/// Signals are for the main thread, which looks at them between steps.
void block_signals() {
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

/// Copies the columns of one sample that a tile holds into row `row` of the tile.
void read_row(const Samples& samples, const Samples::Sample& sample, const Interval& columns,
              std::int64_t row, std::vector<std::int32_t>& buffer, TileData& tile) {
  const std::int64_t known =
      std::clamp<std::int64_t>(sample.targets - columns.begin, 0, columns.size());
  if (known == 0) return;
  samples.stream(sample.stream).read(sample.begin + columns.begin, known + 1, buffer.data());
  const std::int64_t at = row * columns.size();
  std::copy_n(buffer.begin(), known, tile.tokens.begin() + at);
  std::copy_n(buffer.begin() + 1, known, tile.targets.begin() + at);
  std::fill_n(tile.weights.begin() + at, known, 1.0F);
}

}  // namespace

struct Loader::Impl {
  /// A batch, or why there is none: an exception, or (neither) the end of the last epoch.
  struct Item {
    std::optional<Batch> batch;
    std::exception_ptr exception;
  };

  std::shared_ptr<const Samples> samples;
  LoaderConfig config;
  std::vector<Box> boxes;
  Position position;  // of the batch that next() gives; the reader is ahead of it

  std::thread reader;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Item> queue;
  bool stopping = false;

  Batch build(const Position& at) const;
  TileData read_tile(const std::vector<Samples::Sample>& rows, std::int64_t first,
                     const Box& box) const;
  Position after(Position at) const;
  void read_ahead(Position at);
  void start();
  void stop();
  const Item& wait_for_item();
};

TileData Loader::Impl::read_tile(const std::vector<Samples::Sample>& rows, std::int64_t first,
                                 const Box& box) const {
  const auto volume = static_cast<std::size_t>(tessera::volume(box));
  TileData tile;
  tile.tokens.resize(volume);
  tile.targets.resize(volume);
  tile.weights.resize(volume);
  std::vector<std::int32_t> buffer(static_cast<std::size_t>(box[1].size()) + 1);
  for (std::int64_t row = 0; row < box[0].size(); ++row) {
    const auto at = static_cast<std::size_t>(first + box[0].begin + row);
    if (at < rows.size()) read_row(*samples, rows[at], box[1], row, buffer, tile);
  }
  return tile;
}

Batch Loader::Impl::build(const Position& at) const {
  Batch batch;
  batch.at = at;
  batch.rows = std::min(config.batch, samples->per_epoch() - at.index);
  batch.ends_epoch = at.index + batch.rows == samples->per_epoch();
  std::vector<Samples::Sample> rows;
  for (std::int64_t row = 0; row < batch.rows; ++row) {
    rows.push_back(samples->at(at.epoch, at.index + row));
    batch.targets += rows.back().targets;
  }
  batch.weight = static_cast<double>(batch.targets);
  const std::int64_t micro_rows = config.batch / config.micro_batches;
  for (std::int64_t micro = 0; micro < config.micro_batches; ++micro) {
    std::vector<TileData> tiles;
    for (const Box& box : boxes) tiles.push_back(read_tile(rows, micro * micro_rows, box));
    batch.tiles.push_back(std::move(tiles));
  }
  return batch;
}

Position Loader::Impl::after(Position at) const {
  at.index += config.batch;
  ++at.step;
  if (at.index >= samples->per_epoch()) {
    at.index = 0;
    ++at.epoch;
  }
  return at;
}

void Loader::Impl::read_ahead(Position at) {
  block_signals();
  for (bool more = true; more; at = after(at)) {
    Item item;
    try {
      if (config.epochs == 0 || at.epoch < config.epochs) item.batch = build(at);
    } catch (...) {
      item.exception = std::current_exception();
    }
    more = item.batch.has_value();
    std::unique_lock lock(mutex);
    const auto limit = static_cast<std::size_t>(std::max(1, config.ahead));
    changed.wait(lock, [&] { return stopping || queue.size() < limit; });
    if (stopping) return;
    queue.push_back(std::move(item));
    changed.notify_all();
  }
}

void Loader::Impl::start() {
  if (!reader.joinable()) reader = std::thread([this, at = position] { read_ahead(at); });
}

void Loader::Impl::stop() {
  {
    const std::lock_guard lock(mutex);
    stopping = true;
  }
  changed.notify_all();
  if (reader.joinable()) reader.join();
  stopping = false;
  queue.clear();
}

const Loader::Impl::Item& Loader::Impl::wait_for_item() {
  start();
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return !queue.empty(); });
  return queue.front();  // only this thread takes items away
}

Loader::Loader(std::shared_ptr<const Samples> samples, const LoaderConfig& config,
               std::vector<Box> boxes)
    : impl_(std::make_unique<Impl>()) {
  TESSERA_CHECK(samples != nullptr, "a loader needs samples");
  check_user(config.batch > 0, "data.batch is ", config.batch, "; it must be at least 1");
  check_user(config.micro_batches > 0 && config.batch % config.micro_batches == 0,
             "train.micro_batches = ", config.micro_batches,
             " does not divide data.batch = ", config.batch, "; make the batch a multiple of it");
  const std::int64_t rows = config.batch / config.micro_batches;
  for (const Box& box : boxes) {
    TESSERA_CHECK(box.size() == 2, "a box of rows and columns, not of ", box.size(), " dims");
    TESSERA_CHECK(box[0].begin >= 0 && box[0].end <= rows, "rows of a box end at ", box[0].end);
    TESSERA_CHECK(box[1].begin >= 0 && box[1].end <= samples->length(), "columns of a box end at ",
                  box[1].end);
  }
  impl_->samples = std::move(samples);
  impl_->config = config;
  impl_->boxes = std::move(boxes);
}

Loader::~Loader() {
  impl_->stop();
}

std::optional<Batch> Loader::next() {
  const Impl::Item& item = impl_->wait_for_item();
  if (item.exception) std::rethrow_exception(item.exception);
  if (!item.batch) return std::nullopt;
  std::unique_lock lock(impl_->mutex);
  Batch batch = std::move(*impl_->queue.front().batch);
  impl_->queue.pop_front();
  lock.unlock();
  impl_->changed.notify_all();
  impl_->position = impl_->after(impl_->position);
  return batch;
}

Status Loader::status() {
  const Impl::Item& item = impl_->wait_for_item();
  return item.exception ? status_of(item.exception) : Status{};
}

Position Loader::position() const {
  return impl_->position;
}

void Loader::seek(const Position& position) {
  check_user(position.epoch >= 0 && position.step >= 0 && position.index >= 0 &&
                 position.index < impl_->samples->per_epoch(),
             "cannot go on at sample ", position.index, " of epoch ", position.epoch,
             ": an epoch of this data has ", impl_->samples->per_epoch(), " samples");
  impl_->stop();
  impl_->position = position;
}

const Samples& Loader::samples() const {
  return *impl_->samples;
}

std::int64_t Loader::batches_per_epoch() const {
  return (impl_->samples->per_epoch() + impl_->config.batch - 1) / impl_->config.batch;
}

}  // namespace tessera::data
