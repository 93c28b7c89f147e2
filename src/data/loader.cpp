// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/data/loader.hpp"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "tessera/base/error.hpp"
#include "tessera/replicate/row_shares.hpp"

namespace tessera::data {
namespace {

/// Signals are for the main thread, which looks at them between steps.
void block_signals() {
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

/// Calls `call` for 0 … count - 1 on `threads` threads, this one among them. Of several exceptions
/// the one of the lowest index is thrown, as with one thread.
template <class Call>
void for_each_index(std::int64_t count, int threads, const Call& call) {
  std::atomic<std::int64_t> next{0};
  std::mutex mutex;
  std::int64_t failed = count;
  std::exception_ptr exception;
  const auto work = [&] {
    for (std::int64_t i = next++; i < count; i = next++) try {
        call(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (i < failed) failed = i, exception = std::current_exception();
        return;
      }
  };
  std::vector<std::jthread> others;  // they inherit this thread's blocked signals
  for (int t = 1; t < std::min<std::int64_t>(threads, count); ++t) others.emplace_back(work);
  work();
  others.clear();
  if (exception) std::rethrow_exception(exception);
}

/// An input's field and what the local ranks hold of it: boxes over [replicas, rows, dims…].
struct Input {
  std::size_t field = 0;
  std::size_t element_bytes = 0;
  std::vector<Box> boxes;

  /// Bytes that a rank holds of one row.
  std::size_t row_bytes(std::size_t rank) const {
    const Box& box = boxes[rank];
    return static_cast<std::size_t>(volume({box.begin() + 2, box.end()})) * element_bytes;
  }
  std::size_t bytes(std::size_t rank) const {
    const Box& box = boxes[rank];
    return static_cast<std::size_t>(box[0].size() * box[1].size()) * row_bytes(rank);
  }
  bool holds(std::size_t rank, std::int64_t replica, std::int64_t row) const {
    const Box& box = boxes[rank];
    return box[0].begin <= replica && replica < box[0].end && box[1].begin <= row &&
           row < box[1].end;
  }
  /// Where a row that it holds begins in its tile.
  std::size_t offset(std::size_t rank, std::int64_t replica, std::int64_t row) const {
    const Box& box = boxes[rank];
    const std::int64_t rows = (replica - box[0].begin) * box[1].size() + row - box[1].begin;
    return static_cast<std::size_t>(rows) * row_bytes(rank);
  }
};

void check_boxes(const Input& input, const Field& field, const replicate::RowShares& shares) {
  std::vector<Dim> dims{{"replica", shares.replicas}, {"batch", shares.rows()}};
  for (const auto& dim : field.spec.shape) dims.push_back(dim);
  for (const Box& box : input.boxes) {
    TESSERA_CHECK(box.size() == dims.size(), "a box of ", box.size(), " dims for input ",
                  field.name, " of rows and ", field.spec.shape.to_string());
    for (std::size_t d = 0; d < dims.size(); ++d)
      TESSERA_CHECK(box[d].begin >= 0 && box[d].end <= dims[d].size, "input ", field.name, ": dim ",
                    dims[d].name, " of a box ends at ", box[d].end);
  }
}

}  // namespace

Position advance(Position at, std::int64_t batches, std::int64_t batch, std::int64_t per_epoch) {
  at.step += batches;
  const std::int64_t left = (per_epoch - at.index + batch - 1) / batch;  // in this epoch
  if (batches < left) {
    at.index += batches * batch;
    return at;
  }
  const std::int64_t whole = (per_epoch + batch - 1) / batch;
  at.epoch += 1 + (batches - left) / whole;
  at.index = (batches - left) % whole * batch;
  return at;
}

struct Loader::Impl {
  /// A batch, or why there is none: an exception, or (neither) the end of the last epoch.
  struct Item {
    std::optional<Batch> batch;
    std::exception_ptr exception;
  };

  std::shared_ptr<const Samples> samples;
  LoaderConfig config;
  replicate::RowShares shares;
  std::vector<Input> inputs;
  std::size_t ranks = 0;
  Position position;  // of the batch that next() gives; the reader is ahead of it

  std::thread reader;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Item> queue;
  bool stopping = false;

  Batch build(const Position& at) const;
  TileData empty_tile(std::size_t rank) const;
  void read_row(const Position& at, std::int64_t row, std::size_t rank, Batch& batch) const;
  Position after(Position at) const;
  void read_ahead(Position at);
  void start();
  void stop();
  const Item& wait_for_item();
};

TileData Loader::Impl::empty_tile(std::size_t rank) const {
  TileData tile;
  for (const Input& input : inputs) tile.inputs.emplace_back(input.bytes(rank));
  return tile;
}

/// Row `row` of the batch, where this rank's tiles have it.
void Loader::Impl::read_row(const Position& at, std::int64_t row, std::size_t rank,
                            Batch& batch) const {
  const auto place = shares.place_of(row);
  if (place.micro % config.shares != config.share) return;
  TileData& tile = batch.tiles[static_cast<std::size_t>(place.micro / config.shares)][rank];
  std::vector<Samples::Part> parts;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Input& input = inputs[i];
    if (tile.inputs[i].empty() || !input.holds(rank, place.replica, place.row)) continue;
    parts.push_back({input.field, input.boxes[rank].data() + 2,
                     tile.inputs[i].data() + input.offset(rank, place.replica, place.row)});
  }
  if (!parts.empty()) samples->read(at.epoch, at.index + row, parts);
}

Batch Loader::Impl::build(const Position& at) const {
  Batch batch;
  batch.at = at;
  batch.share = config.share;
  batch.shares = config.shares;
  batch.rows = std::min(config.batch, samples->per_epoch() - at.index);
  batch.ends_epoch = at.index + batch.rows == samples->per_epoch();
  for (std::int64_t row = 0; row < batch.rows; ++row) {
    const auto count = samples->count(at.epoch, at.index + row);
    batch.targets += count.targets;
    batch.weight += count.weight;
  }
  for (std::int64_t micro = config.share; micro < config.micro_batches; micro += config.shares) {
    std::vector<TileData> tiles;
    for (std::size_t rank = 0; rank < ranks; ++rank) tiles.push_back(empty_tile(rank));
    batch.tiles.push_back(std::move(tiles));
  }
  const auto local_ranks = static_cast<std::int64_t>(ranks);
  for_each_index(batch.rows * local_ranks, config.threads, [&](std::int64_t i) {
    read_row(at, i / local_ranks, static_cast<std::size_t>(i % local_ranks), batch);
  });
  return batch;
}

Position Loader::Impl::after(Position at) const {
  return advance(at, config.stride, config.batch, samples->per_epoch());
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
               std::vector<LoadedInput> inputs)
    : impl_(std::make_unique<Impl>()) {
  TESSERA_CHECK(samples != nullptr, "a loader needs samples");
  impl_->shares = {config.batch, config.micro_batches, std::max<std::int64_t>(1, config.replicas)};
  // Who asks for replicas decides whether some may have fewer rows.
  impl_->shares.check(/*uneven=*/config.replicas > 0);
  for (LoadedInput& loaded : inputs) {
    Input input;
    input.field = field_index(*samples, loaded.name);
    const Field& field = samples->fields()[input.field];
    TESSERA_CHECK(field.spec.dtype == DType::i32 || field.spec.dtype == DType::f32, "input ",
                  loaded.name);
    input.element_bytes = bytes_of(field.spec.dtype);
    input.boxes = std::move(loaded.boxes);
    if (config.replicas == 0)
      for (Box& box : input.boxes) box.insert(box.begin(), {0, 1});
    check_boxes(input, field, impl_->shares);
    TESSERA_CHECK(impl_->inputs.empty() || input.boxes.size() == impl_->ranks, "input ",
                  loaded.name, " has boxes of ", input.boxes.size(), " ranks");
    impl_->ranks = input.boxes.size();
    impl_->inputs.push_back(std::move(input));
  }
  impl_->samples = std::move(samples);
  impl_->config = config;
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
