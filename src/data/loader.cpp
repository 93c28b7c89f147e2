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

/// An input's field and the boxes of the local ranks.
struct Input {
  std::size_t field = 0;
  std::size_t element_bytes = 0;
  std::vector<Box> boxes;

  std::size_t row_bytes(std::size_t rank) const {
    const Box& box = boxes[rank];
    return static_cast<std::size_t>(volume({box.begin() + 1, box.end()})) * element_bytes;
  }
};

void check_boxes(const LoadedInput& input, const Field& field, std::int64_t rows) {
  const Shape& shape = field.spec.shape;
  for (const Box& box : input.boxes) {
    TESSERA_CHECK(static_cast<int>(box.size()) == shape.rank() + 1, "a box of ", box.size(),
                  " dims for input ", input.name, " of rows and ", shape.to_string());
    TESSERA_CHECK(box[0].begin >= 0 && box[0].end <= rows, "rows of a box end at ", box[0].end);
    for (int d = 0; d < shape.rank(); ++d) {
      const Interval& interval = box[static_cast<std::size_t>(d) + 1];
      TESSERA_CHECK(interval.begin >= 0 && interval.end <= shape[d].size, "input ", input.name,
                    ": dim ", shape[d].name, " of a box ends at ", interval.end);
    }
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
  void read_row(const Position& at, std::int64_t first, std::int64_t row, std::size_t rank,
                TileData& tile) const;
  Position after(Position at) const;
  void read_ahead(Position at);
  void start();
  void stop();
  const Item& wait_for_item();
};

TileData Loader::Impl::empty_tile(std::size_t rank) const {
  TileData tile;
  for (const Input& input : inputs)
    tile.inputs.emplace_back(static_cast<std::size_t>(input.boxes[rank][0].size()) *
                             input.row_bytes(rank));
  return tile;
}

/// Sample `row` of a micro-batch whose first is `first`, where this rank's tile has it.
void Loader::Impl::read_row(const Position& at, std::int64_t first, std::int64_t row,
                            std::size_t rank, TileData& tile) const {
  std::vector<Samples::Part> parts;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Box& box = inputs[i].boxes[rank];
    if (row < box[0].begin || row >= box[0].end || tile.inputs[i].empty()) continue;
    const auto offset = static_cast<std::size_t>(row - box[0].begin) * inputs[i].row_bytes(rank);
    parts.push_back({inputs[i].field, box.data() + 1, tile.inputs[i].data() + offset});
  }
  if (!parts.empty()) samples->read(at.epoch, at.index + first + row, parts);
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
  const std::int64_t micro_rows = config.batch / config.micro_batches;
  for (std::int64_t micro = config.share; micro < config.micro_batches; micro += config.shares) {
    std::vector<TileData> tiles;
    for (std::size_t rank = 0; rank < ranks; ++rank) tiles.push_back(empty_tile(rank));
    batch.tiles.push_back(std::move(tiles));
  }
  const auto local_ranks = static_cast<std::int64_t>(ranks);
  for_each_index(batch.rows * local_ranks, config.threads, [&](std::int64_t i) {
    const std::int64_t row = i / local_ranks, micro = row / micro_rows;
    if (micro % config.shares != config.share) return;
    const auto rank = static_cast<std::size_t>(i % local_ranks);
    read_row(at, micro * micro_rows, row % micro_rows, rank,
             batch.tiles[static_cast<std::size_t>(micro / config.shares)][rank]);
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
  check_user(config.batch > 0, "data.batch is ", config.batch, "; it must be at least 1");
  check_user(config.micro_batches > 0 && config.batch % config.micro_batches == 0,
             "train.micro_batches = ", config.micro_batches,
             " does not divide data.batch = ", config.batch, "; make the batch a multiple of it");
  for (LoadedInput& input : inputs) {
    const std::size_t field = field_index(*samples, input.name);
    const TensorSpec& spec = samples->fields()[field].spec;
    check_boxes(input, samples->fields()[field], config.batch / config.micro_batches);
    TESSERA_CHECK(spec.dtype == DType::i32 || spec.dtype == DType::f32, "input ", input.name);
    TESSERA_CHECK(impl_->inputs.empty() || input.boxes.size() == impl_->ranks, "input ", input.name,
                  " has boxes of ", input.boxes.size(), " ranks");
    impl_->ranks = input.boxes.size();
    impl_->inputs.push_back({field, bytes_of(spec.dtype), std::move(input.boxes)});
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
