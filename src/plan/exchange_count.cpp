// SPDX-License-Identifier: BSD-3-Clause
#include "exchange_count.hpp"

#include <algorithm>
#include <memory>
#include <set>

#include "tessera/program/exchange.hpp"

namespace tessera::plan {
namespace {

using program::Buffer;
using program::ExchangeStep;

/// What one step sends in one run of its section.
class StepCounter {
 public:
  virtual ~StepCounter() = default;
  /// Mesh dims on whose coordinates the count depends in a way that isn't plain: of plain dims the
  /// last tile is the largest.
  virtual std::set<int> mesh_dims() const = 0;
  virtual std::int64_t bytes_at(const Coordinates& at) const = 0;
  virtual std::int64_t messages_at(const Coordinates& at) const = 0;
  virtual std::int64_t bytes_of_all() const = 0;
};

/// Only the ranks of one stage send what is at it.
void add_stage_dim(const Placement& placement, std::set<int>& dims) {
  for (int m = 0; m < placement.mesh_rank(); ++m)
    if (placement[m].is_at()) dims.insert(m);
}

class ExchangeCounter final : public StepCounter {
 public:
  ExchangeCounter(const ExchangeStep& step, std::int64_t times, const std::vector<Buffer>& buffers,
                  const MeshShape& mesh)
      : step_(step),
        times_(times),
        mesh_(mesh),
        like_(buffers[static_cast<std::size_t>(step.inputs[0])]),
        load_(program::load_of(buffers, step, mesh)) {}

  std::set<int> mesh_dims() const override {
    std::set<int> dims(step_.mesh_dims.begin(), step_.mesh_dims.end());
    for (int d = 0; d < like_.spec.shape.rank(); ++d)
      if (is_windowed(d))
        for (int m : like_.placement.mesh_dims_splitting(d)) dims.insert(m);
    add_stage_dim(like_.placement, dims);
    return dims;
  }
  std::int64_t bytes_at(const Coordinates& at) const override {
    return times_ * load_.sent[member(at)] * rest_at(at) * element_bytes();
  }
  std::int64_t messages_at(const Coordinates& at) const override {
    return rest_at(at) > 0 ? times_ * load_.messages[member(at)] : 0;
  }
  std::int64_t bytes_of_all() const override {
    std::int64_t total = times_ * element_bytes();
    for (int d = 0; d < like_.spec.shape.rank(); ++d)
      if (d != step_.dim) total *= total_along(d);
    std::int64_t sent = 0;
    for (std::int64_t n : load_.sent) sent += n;
    for (int m = 0; m < mesh_.rank(); ++m)
      if (!like_.placement[m].is_split() && !like_.placement[m].is_at()) sent *= mesh_[m].size;
    return total * sent;
  }

 private:
  std::int64_t element_bytes() const {
    return static_cast<std::int64_t>(bytes_of(like_.spec.dtype));
  }
  bool is_windowed(int d) const {
    return d != step_.dim && !like_.windows.empty() &&
           !like_.windows[static_cast<std::size_t>(d)].is_plain();
  }
  std::size_t member(const Coordinates& at) const {
    std::int64_t index = 0;
    for (int m : step_.mesh_dims) index = index * mesh_[m].size + at[static_cast<std::size_t>(m)];
    return static_cast<std::size_t>(index);
  }
  std::int64_t rest_at(const Coordinates& at) const {
    const Box box = tile_box(like_, mesh_, at);
    std::int64_t rest = 1;
    for (std::size_t d = 0; d < box.size(); ++d)
      if (static_cast<int>(d) != step_.dim) rest *= box[d].size();
    return rest;
  }
  /// All tiles along a dim together.
  std::int64_t total_along(int d) const {
    if (!is_windowed(d)) return like_.spec.shape[d].size;
    const auto cuts = like_.placement.mesh_dims_splitting(d);
    Coordinates at(static_cast<std::size_t>(mesh_.rank()), 0);
    std::int64_t total = 0;
    for (std::int64_t i = 0; i < mesh_.group_size(cuts); ++i) {
      program::set_member(mesh_, cuts, i, at);
      total += tile_box(like_, mesh_, at)[static_cast<std::size_t>(d)].size();
    }
    return total;
  }

  const ExchangeStep& step_;
  std::int64_t times_;
  const MeshShape& mesh_;
  const Buffer& like_;  // the dims that stay are cut as here
  program::ExchangeLoad load_;
};

/// In `times` iterations a rank sends the tiles of as many ranks, which follow each other.
class RingCounter final : public StepCounter {
 public:
  RingCounter(const program::RingStep& step, std::int64_t times, const std::vector<Buffer>& buffers,
              const MeshShape& mesh)
      : step_(step), times_(times), mesh_(mesh), ways_(mesh[step.mesh_dim].size) {
    for (program::BufferId id : step.inputs)
      tensors_.push_back(buffers[static_cast<std::size_t>(id)]);
    if (tensors_[0].ring.mesh_dim >= 0) places_ = tensors_[0].ring.places;
    for (Buffer& tensor : tensors_) tensor.ring = {};
  }

  std::set<int> mesh_dims() const override {
    std::set<int> dims{step_.mesh_dim};
    add_stage_dim(tensors_[0].placement, dims);
    return dims;
  }
  std::int64_t bytes_at(const Coordinates& at) const override {
    std::int64_t whole = 0;
    for (Buffer tensor : tensors_) {
      tensor.placement[step_.mesh_dim] = State::replicated();
      whole += bytes_of_tile(tensor, at);
    }
    return over_iterations(at, whole, [&](const Coordinates& there) { return tile_bytes(there); });
  }
  std::int64_t messages_at(const Coordinates& at) const override {
    const int dim = tensors_[0].placement[step_.mesh_dim].dim;
    Buffer first = tensors_[0];
    first.placement[step_.mesh_dim] = State::replicated();
    const std::int64_t filled =
        bytes_of_tile(first, at) > 0 ? std::min(ways_, first.spec.shape[dim].size) : 0;
    return over_iterations(at, filled, [&](const Coordinates& there) {
      return static_cast<std::int64_t>(tile_bytes(there) > 0);
    });
  }
  std::int64_t bytes_of_all() const override {
    std::int64_t all = 0;
    for (const Buffer& tensor : tensors_) {
      std::int64_t bytes = times_ * tensor.spec.shape.size() *
                           static_cast<std::int64_t>(bytes_of(tensor.spec.dtype));
      for (int m = 0; m < mesh_.rank(); ++m)
        if (!tensor.placement[m].is_split() && !tensor.placement[m].is_at()) bytes *= mesh_[m].size;
      all += bytes;
    }
    return all;
  }

 private:
  std::int64_t bytes_of_tile(const Buffer& tensor, const Coordinates& at) const {
    return volume(tile_box(tensor, mesh_, at)) *
           static_cast<std::int64_t>(bytes_of(tensor.spec.dtype));
  }
  std::int64_t tile_bytes(const Coordinates& at) const {
    std::int64_t bytes = 0;
    for (const Buffer& tensor : tensors_) bytes += bytes_of_tile(tensor, at);
    return bytes;
  }
  /// The sum of f over the ranks whose tiles pass, or `whole`, the sum over all, without the
  /// others, where these are fewer: so the cost of counting a ring grows with it, not with its
  /// square.
  template <class Function>
  std::int64_t over_iterations(Coordinates at, std::int64_t whole, const Function& f) const {
    int& place = at[static_cast<std::size_t>(step_.mesh_dim)];
    const bool few = 2 * times_ <= ways_;
    const std::int64_t begin = place + places_ + (few ? 0 : times_);
    std::int64_t sum = 0;
    for (std::int64_t i = 0; i < (few ? times_ : ways_ - times_); ++i) {
      place = static_cast<int>((begin + i) % ways_);
      sum += f(at);
    }
    return few ? sum : whole - sum;
  }

  const program::RingStep& step_;
  std::int64_t times_;
  const MeshShape& mesh_;
  std::int64_t ways_;
  std::int64_t places_ = 0;
  std::vector<Buffer> tensors_;  // as their owners hold them
};

/// From one stage to another: one message from each rank that has a tile.
class TransferCounter final : public StepCounter {
 public:
  TransferCounter(const program::TransferStep& step, const std::vector<Buffer>& buffers,
                  const MeshShape& mesh)
      : step_(step), mesh_(mesh), tensor_(buffers[static_cast<std::size_t>(step.input)]) {}

  std::set<int> mesh_dims() const override { return {step_.mesh_dim}; }
  std::int64_t bytes_at(const Coordinates& at) const override {
    if (at[static_cast<std::size_t>(step_.mesh_dim)] != step_.from) return 0;
    return volume(tile_box(tensor_, mesh_, at)) * element_bytes();
  }
  std::int64_t messages_at(const Coordinates& at) const override { return bytes_at(at) > 0; }
  std::int64_t bytes_of_all() const override {
    std::int64_t bytes = tensor_.spec.shape.size() * element_bytes();
    for (int m = 0; m < mesh_.rank(); ++m)
      if (!tensor_.placement[m].is_split() && m != step_.mesh_dim) bytes *= mesh_[m].size;
    return bytes;
  }

 private:
  std::int64_t element_bytes() const {
    return static_cast<std::int64_t>(bytes_of(tensor_.spec.dtype));
  }
  const program::TransferStep& step_;
  const MeshShape& mesh_;
  const Buffer& tensor_;
};

std::unique_ptr<StepCounter> counter_of(const CountedExchange& counted,
                                        const std::vector<Buffer>& buffers, const MeshShape& mesh) {
  if (const auto* ring = std::get_if<const program::RingStep*>(&counted.step))
    return std::make_unique<RingCounter>(**ring, counted.times, buffers, mesh);
  if (const auto* transfer = std::get_if<const program::TransferStep*>(&counted.step))
    return std::make_unique<TransferCounter>(**transfer, buffers, mesh);
  return std::make_unique<ExchangeCounter>(*std::get<const ExchangeStep*>(counted.step),
                                           counted.times, buffers, mesh);
}

}  // namespace

void count_exchanges(const std::vector<CountedExchange>& steps, const std::vector<Buffer>& buffers,
                     const MeshShape& mesh, program::CollectiveRow& row) {
  std::vector<std::unique_ptr<StepCounter>> counters;
  std::set<int> varied;
  for (const CountedExchange& step : steps) {
    counters.push_back(counter_of(step, buffers, mesh));
    varied.merge(counters.back()->mesh_dims());
    row.count += step.times;
    row.bytes_all_ranks += counters.back()->bytes_of_all();
  }
  const std::vector<int> dims(varied.begin(), varied.end());
  Coordinates at;
  for (const auto& dim : mesh.dims()) at.push_back(static_cast<int>(dim.size) - 1);
  for (std::int64_t i = 0; i < mesh.group_size(dims); ++i) {
    program::set_member(mesh, dims, i, at);
    std::int64_t bytes = 0, messages = 0;
    for (const auto& counter : counters) {
      bytes += counter->bytes_at(at);
      messages += counter->messages_at(at);
    }
    row.bytes = std::max(row.bytes, bytes);
    row.messages = std::max(row.messages, messages);
  }
}

}  // namespace tessera::plan
