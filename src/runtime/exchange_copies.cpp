// SPDX-License-Identifier: BSD-3-Clause
#include "exchange_copies.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"
#include "tessera/program/exchange.hpp"

namespace tessera::runtime {
namespace {

using kernels::Tile;
using program::BufferId;
using program::ExchangeStep;

/// Part of a tile: all of it but for `count` elements along the step's dim, `step` apart.
struct Slab {
  char* data = nullptr;
  std::int64_t strides[kernels::kMaxRank] = {};
};

Slab slab_of(const Tile& tile, int dim, std::int64_t begin, std::int64_t step) {
  Slab slab;
  std::int64_t stride = 1;
  for (int d = tile.rank - 1; d >= 0; --d) {
    slab.strides[d] = stride;
    stride *= tile.extent[d];
  }
  slab.data = static_cast<char*>(tile.data) + (begin - tile.offset[dim]) * slab.strides[dim] *
                                                  static_cast<std::int64_t>(bytes_of(tile.dtype));
  slab.strides[dim] *= step;
  return slab;
}

/// Copies on one rank.
class RankPreparer {
 public:
  RankPreparer(const program::Section& section, const ExchangeStep& step, const Places& places,
               std::size_t r, PreparedExchange::Rank& rank)
      : section_(section), step_(step), places_(places), r_(r), rank_(rank) {}

  void run() {
    keep_own();
    if (step_.mesh_dims.empty()) return;
    char* send = places_.arenas[r_] + buffer(step_.send).offset;
    char* receive = places_.arenas[r_] + buffer(step_.receive).offset;
    rank_.send = send;
    rank_.receive = receive;
    Coordinates there = places_.coordinates[r_];
    for (std::int64_t j = 0; j < places_.mesh->group_size(step_.mesh_dims); ++j) {
      program::set_member(*places_.mesh, step_.mesh_dims, j, there);
      auto& sent = rank_.send_counts.emplace_back(0);
      auto& received = rank_.receive_counts.emplace_back(0);
      if (there == places_.coordinates[r_]) continue;
      for (const auto& run : step_.runs) {
        const Tile source = tile(step_.inputs[at(run.input)]);
        const Tile target = tile(step_.outputs[at(run.output)]);
        const Interval out =
            program::shared(run, along(source), along(step_.outputs[at(run.output)], there));
        const Interval in =
            program::shared(run, along(step_.inputs[at(run.input)], there), along(target));
        if (const std::int64_t n = pack(source, run, out, send)) sent += n;
        if (const std::int64_t n = unpack(target, run, in, receive)) received += n;
      }
    }
  }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  const program::Buffer& buffer(BufferId id) const { return section_.buffers[at(id)]; }
  Tile tile(BufferId id) const { return places_.tile(buffer(id), r_); }
  Interval along(const Tile& tile) const {
    return {tile.offset[step_.dim], tile.offset[step_.dim] + tile.extent[step_.dim]};
  }
  Interval along(BufferId id, const Coordinates& there) const {
    return tile_box(buffer(id), *places_.mesh, there)[at(step_.dim)];
  }
  bool sums() const { return step_.mode == ExchangeStep::Mode::accumulate; }

  BoxCopy between(const Tile& tile, std::int64_t count, const char* from,
                  const std::int64_t* from_strides, char* to,
                  const std::int64_t* to_strides) const {
    BoxCopy copy;
    copy.rank = tile.rank;
    copy.element_bytes = bytes_of(tile.dtype);
    copy.from = from;
    copy.to = to;
    for (int d = 0; d < tile.rank; ++d) {
      copy.extents[d] = d == step_.dim ? count : tile.extent[d];
      copy.from_strides[d] = from_strides[d];
      copy.to_strides[d] = to_strides[d];
    }
    return copy;
  }
  /// Strides of `count` slices along the dim, packed.
  void packed_strides(const Tile& tile, std::int64_t count, std::int64_t* strides) const {
    std::int64_t stride = 1;
    for (int d = tile.rank - 1; d >= 0; --d) {
      strides[d] = stride;
      stride *= d == step_.dim ? count : tile.extent[d];
    }
  }
  std::int64_t elements(const Tile& tile, std::int64_t count) const {
    std::int64_t n = count;
    for (int d = 0; d < tile.rank; ++d)
      if (d != step_.dim) n *= tile.extent[d];
    return n;
  }

  std::int64_t pack(const Tile& source, const ExchangeStep::Run& run, const Interval& t,
                    char*& packed) {
    const std::int64_t n = elements(source, t.size());
    if (n == 0) return 0;
    std::int64_t strides[kernels::kMaxRank] = {};
    packed_strides(source, t.size(), strides);
    const Slab slab = slab_of(source, step_.dim, run.from + t.begin * run.from_step, run.from_step);
    rank_.pack.push_back(between(source, t.size(), slab.data, slab.strides, packed, strides));
    packed += n * static_cast<std::int64_t>(bytes_of(source.dtype));
    return n;
  }
  std::int64_t unpack(const Tile& target, const ExchangeStep::Run& run, const Interval& t,
                      char*& packed) {
    const std::int64_t n = elements(target, t.size());
    if (n == 0) return 0;
    std::int64_t strides[kernels::kMaxRank] = {};
    packed_strides(target, t.size(), strides);
    const Slab slab = slab_of(target, step_.dim, run.to + t.begin * run.to_step, run.to_step);
    (sums() ? rank_.add : rank_.unpack)
        .push_back(between(target, t.size(), packed, strides, slab.data, slab.strides));
    packed += n * static_cast<std::int64_t>(bytes_of(target.dtype));
    return n;
  }

  /// What stays on the rank, and what no run brings.
  void keep_own() {
    for (std::size_t o = 0; o < step_.outputs.size(); ++o) {
      const Tile target = tile(step_.outputs[o]);
      std::vector<Interval> covered;
      bool first = true;
      for (const auto& run : step_.runs) {
        if (at(run.output) != o) continue;
        const Tile source = tile(step_.inputs[at(run.input)]);
        const Interval t = program::shared(run, along(source), along(target));
        if (elements(target, t.size()) > 0) copy_own(source, target, run, t, first);
        // A gather fills what any rank brings; a sum begins with this rank's first run.
        if (!sums()) covered.push_back(brought(run, {0, run.count}, target));
        if (sums() && first) covered.push_back(brought(run, t, target));
        first = false;
      }
      fill_rest(target, std::move(covered));
    }
  }
  void copy_own(const Tile& source, const Tile& target, const ExchangeStep::Run& run,
                const Interval& t, bool first) {
    const Slab from = slab_of(source, step_.dim, run.from + t.begin * run.from_step, run.from_step);
    const Slab to = slab_of(target, step_.dim, run.to + t.begin * run.to_step, run.to_step);
    (sums() && !first ? rank_.add_own : rank_.own)
        .push_back(between(target, t.size(), from.data, from.strides, to.data, to.strides));
  }
  /// The stretch of the target that the run's elements `t` fill without gaps.
  Interval brought(const ExchangeStep::Run& run, const Interval& t, const Tile& target) const {
    if (run.to_step != 1) return {};
    return intersect({run.to + t.begin, run.to + t.end}, along(target));
  }
  void fill_rest(const Tile& target, std::vector<Interval> covered) {
    std::sort(covered.begin(), covered.end(),
              [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
    std::int64_t here = along(target).begin;
    for (const Interval& stretch : covered) {
      if (stretch.size() == 0) continue;
      if (stretch.begin > here) fill(target, {here, stretch.begin});
      here = std::max(here, stretch.end);
    }
    if (here < along(target).end) fill(target, {here, along(target).end});
  }
  void fill(const Tile& target, const Interval& stretch) {
    const Slab slab = slab_of(target, step_.dim, stretch.begin, 1);
    if (elements(target, stretch.size()) > 0)
      rank_.fill.push_back(
          between(target, stretch.size(), nullptr, slab.strides, slab.data, slab.strides));
  }

  const program::Section& section_;
  const ExchangeStep& step_;
  const Places& places_;
  std::size_t r_;
  PreparedExchange::Rank& rank_;
};

}  // namespace

PreparedExchange prepare_exchange(const program::Section& section, const ExchangeStep& step,
                                  const Places& places) {
  PreparedExchange prepared;
  prepared.dtype = section.buffers[static_cast<std::size_t>(step.inputs[0])].spec.dtype;
  for (std::size_t r = 0; r < places.arenas.size(); ++r) {
    auto& rank = prepared.ranks.emplace_back();
    RankPreparer(section, step, places, r, rank).run();
  }
  return prepared;
}

}  // namespace tessera::runtime
