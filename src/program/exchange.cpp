// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/program/exchange.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"

namespace tessera::program {
namespace {

using Run = ExchangeStep::Run;

std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return -floor_div(-a, b);
}

/// The t with begin + t * step in `interval`.
Interval steps_in(const Interval& interval, std::int64_t begin, std::int64_t step) {
  return {ceil_div(interval.begin - begin, step), ceil_div(interval.end - begin, step)};
}

/// One member's tile along the dim.
struct Part {
  Interval interval;
  std::size_t member;
};

/// Which members' tiles hold which t of a run, in order; members that hold none are left out.
std::vector<Part> parts_of(const std::vector<Interval>& tiles, std::int64_t begin,
                           std::int64_t step, std::int64_t count) {
  std::vector<Part> parts;
  for (std::size_t m = 0; m < tiles.size(); ++m) {
    const Interval part = intersect(steps_in(tiles[m], begin, step), {0, count});
    if (part.size() > 0) parts.push_back({part, m});
  }
  std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) {
    return a.interval.begin != b.interval.begin ? a.interval.begin < b.interval.begin
                                                : a.interval.end < b.interval.end;
  });
  return parts;
}

std::vector<Interval> tiles_along(const Buffer& buffer, const ExchangeStep& step,
                                  const MeshShape& mesh) {
  std::vector<Interval> tiles;
  Coordinates at(static_cast<std::size_t>(mesh.rank()), 0);
  for (std::int64_t i = 0; i < mesh.group_size(step.mesh_dims); ++i) {
    set_member(mesh, step.mesh_dims, i, at);
    tiles.push_back(tile_box(buffer, mesh, at)[static_cast<std::size_t>(step.dim)]);
  }
  return tiles;
}

}  // namespace

void set_member(const MeshShape& mesh, const std::vector<int>& mesh_dims, std::int64_t index,
                Coordinates& at) {
  for (std::size_t i = mesh_dims.size(); i-- > 0;) {
    const std::int64_t size = mesh[mesh_dims[i]].size;
    at[static_cast<std::size_t>(mesh_dims[i])] = static_cast<int>(index % size);
    index /= size;
  }
}

Interval shared(const Run& run, const Interval& source, const Interval& target) {
  if (source.size() == 0 || target.size() == 0) return {};
  const Interval both =
      intersect(steps_in(source, run.from, run.from_step), steps_in(target, run.to, run.to_step));
  const Interval part = intersect(both, {0, run.count});
  return part.size() > 0 ? part : Interval{};
}

std::vector<Run> runs_of(const Window& window, std::int64_t n) {
  const Run whole{.count = n};
  if (window.outside != Window::Outside::wrap || n == 0) return {whole};
  const Interval reach = window.of({0, window.count}, n);
  std::vector<Run> runs;
  for (std::int64_t turn = floor_div(reach.begin, n); turn * n < reach.end; ++turn) {
    runs.push_back(whole);
    runs.back().to = turn * n;
  }
  return runs;
}

std::vector<Run> reversed(std::vector<Run> runs) {
  for (Run& run : runs) {
    std::swap(run.input, run.output);
    std::swap(run.from, run.to);
    std::swap(run.from_step, run.to_step);
  }
  return runs;
}

ExchangeLoad load_of(const std::vector<Buffer>& buffers, const ExchangeStep& step,
                     const MeshShape& mesh) {
  const auto members = static_cast<std::size_t>(mesh.group_size(step.mesh_dims));
  ExchangeLoad load;
  load.sent.assign(members, 0);
  load.received = load.messages = load.sent;
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  for (const Run& run : step.runs) {
    const auto tiles = [&](BufferId id) {
      return tiles_along(buffers[static_cast<std::size_t>(id)], step, mesh);
    };
    const auto sources = parts_of(tiles(step.inputs[static_cast<std::size_t>(run.input)]), run.from,
                                  run.from_step, run.count);
    const auto targets = parts_of(tiles(step.outputs[static_cast<std::size_t>(run.output)]), run.to,
                                  run.to_step, run.count);
    // Blocks follow each other, so both lists ascend at both ends.
    std::size_t first = 0;
    for (const Part& source : sources) {
      while (first < targets.size() && targets[first].interval.end <= source.interval.begin)
        ++first;
      for (std::size_t t = first;
           t < targets.size() && targets[t].interval.begin < source.interval.end; ++t) {
        if (targets[t].member == source.member) continue;
        const std::int64_t size = intersect(source.interval, targets[t].interval).size();
        load.sent[source.member] += size;
        load.received[targets[t].member] += size;
        pairs.emplace_back(source.member, targets[t].member);
      }
    }
  }
  std::sort(pairs.begin(), pairs.end());
  pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
  for (const auto& [from, to] : pairs) load.messages[from] += 1;
  return load;
}

}  // namespace tessera::program
