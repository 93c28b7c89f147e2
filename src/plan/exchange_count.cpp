// SPDX-License-Identifier: BSD-3-Clause
#include "exchange_count.hpp"

#include <algorithm>
#include <set>

#include "tessera/program/exchange.hpp"

namespace tessera::plan {
namespace {

using program::Buffer;
using program::ExchangeStep;

class ExchangeCounter {
 public:
  ExchangeCounter(const ExchangeStep& step, const std::vector<Buffer>& buffers,
                  const MeshShape& mesh)
      : step_(step),
        mesh_(mesh),
        like_(buffers[static_cast<std::size_t>(step.inputs[0])]),
        load_(program::load_of(buffers, step, mesh)) {}

  /// Mesh dims on whose coordinates the count depends in a way that isn't plain: of plain dims the
  /// last tile is the largest.
  std::set<int> mesh_dims() const {
    std::set<int> dims(step_.mesh_dims.begin(), step_.mesh_dims.end());
    for (int d = 0; d < like_.spec.shape.rank(); ++d)
      if (is_windowed(d))
        for (int m : like_.placement.mesh_dims_splitting(d)) dims.insert(m);
    return dims;
  }
  std::int64_t bytes_at(const Coordinates& at) const {
    return load_.sent[member(at)] * rest_at(at) * element_bytes();
  }
  std::int64_t messages_at(const Coordinates& at) const {
    return rest_at(at) > 0 ? load_.messages[member(at)] : 0;
  }
  std::int64_t bytes_of_all() const {
    std::int64_t total = element_bytes();
    for (int d = 0; d < like_.spec.shape.rank(); ++d)
      if (d != step_.dim) total *= total_along(d);
    std::int64_t sent = 0;
    for (std::int64_t n : load_.sent) sent += n;
    for (int m = 0; m < mesh_.rank(); ++m)
      if (!like_.placement[m].is_split()) sent *= mesh_[m].size;
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
  const MeshShape& mesh_;
  const Buffer& like_;  // the dims that stay are cut as here
  program::ExchangeLoad load_;
};

}  // namespace

void count_exchanges(const std::vector<const ExchangeStep*>& steps,
                     const std::vector<Buffer>& buffers, const MeshShape& mesh,
                     program::CollectiveRow& row) {
  std::vector<ExchangeCounter> counters;
  std::set<int> varied;
  for (const ExchangeStep* step : steps) {
    counters.emplace_back(*step, buffers, mesh);
    varied.merge(counters.back().mesh_dims());
    row.count += 1;
    row.bytes_all_ranks += counters.back().bytes_of_all();
  }
  const std::vector<int> dims(varied.begin(), varied.end());
  Coordinates at;
  for (const auto& dim : mesh.dims()) at.push_back(static_cast<int>(dim.size) - 1);
  for (std::int64_t i = 0; i < mesh.group_size(dims); ++i) {
    program::set_member(mesh, dims, i, at);
    std::int64_t bytes = 0, messages = 0;
    for (const auto& counter : counters) {
      bytes += counter.bytes_at(at);
      messages += counter.messages_at(at);
    }
    row.bytes = std::max(row.bytes, bytes);
    row.messages = std::max(row.messages, messages);
  }
}

}  // namespace tessera::plan
