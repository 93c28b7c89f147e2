// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/transfer.hpp"

#include <algorithm>
#include <cstring>

#include "tessera/base/error.hpp"
#include "tessera/shape/runs.hpp"

namespace tessera::train {
namespace {

int index_of(const program::Program& program, const std::string& name) {
  for (std::size_t v = 0; v < program.variables.size(); ++v)
    if (program.variables[v].variable.name == name) return static_cast<int>(v);
  throw Error(concat("no variable '", name, "' in a program that should share it"));
}

Box box_on(const program::Program& program, int variable, std::int64_t rank) {
  const auto& stored = program.variables[static_cast<std::size_t>(variable)];
  TESSERA_CHECK(!stored.placement.has_partial(), "'", stored.variable.name, "' is not reduced");
  return tile_box(stored.variable.spec.shape, stored.placement, program.mesh,
                  program.mesh.coordinates(rank));
}

bool is_first_holder(const program::Program& program, int variable, std::int64_t rank) {
  const Coordinates at = program.mesh.coordinates(rank);
  const auto& placement = program.variables[static_cast<std::size_t>(variable)].placement;
  return std::ranges::all_of(placement.replicated_mesh_dims(),
                             [&](int m) { return at[static_cast<std::size_t>(m)] == 0; });
}

Box common(const Box& a, const Box& b) {
  Box box;
  for (std::size_t d = 0; d < a.size(); ++d) box.push_back(intersect(a[d], b[d]));
  return box;
}

/// Visits the runs of a part in a tile: Run::global is the index in the tile, Run::local that in
/// the part.
template <class Visit>
void for_each_run_in_tile(const Box& tile, const Box& part, const Visit& visit) {
  std::vector<Dim> dims;
  Box inside;
  for (std::size_t d = 0; d < tile.size(); ++d) {
    dims.push_back({std::to_string(d), tile[d].size()});
    inside.push_back({part[d].begin - tile[d].begin, part[d].end - tile[d].begin});
  }
  for_each_run(Shape(std::move(dims)), inside, visit);
}

template <class T>
void add_run(void* to, const std::byte* from, std::int64_t count, double scale) {
  auto* sums = static_cast<T*>(to);
  for (std::int64_t i = 0; i < count; ++i) {
    T value;  // a message is not aligned
    std::memcpy(&value, from + static_cast<std::size_t>(i) * sizeof(T), sizeof(T));
    sums[i] += static_cast<T>(scale) * value;
  }
}

DType dtype_of(const runtime::Executor& executor, int variable) {
  return executor.program().variables[static_cast<std::size_t>(variable)].variable.spec.dtype;
}

}  // namespace

std::vector<Shared> shared_parts(const program::Program& from, std::int64_t giver,
                                 const program::Program& to, std::int64_t taker,
                                 const std::vector<std::string>& names) {
  std::vector<Shared> parts;
  for (const auto& name : names) {
    Shared part{index_of(from, name), index_of(to, name), {}};
    if (!is_first_holder(from, part.from, giver)) continue;
    part.box = common(box_on(from, part.from, giver), box_on(to, part.to, taker));
    if (volume(part.box) > 0) parts.push_back(std::move(part));
  }
  return parts;
}

std::int64_t bytes_between(const program::Program& from, const program::Program& to,
                           const std::vector<std::string>& names) {
  std::int64_t bytes = 0;
  for (std::int64_t giver = 0; giver < from.mesh.size(); ++giver)
    for (std::int64_t taker = 0; taker < to.mesh.size(); ++taker)
      for (const auto& part : shared_parts(from, giver, to, taker, names)) {
        const auto& spec = from.variables[static_cast<std::size_t>(part.from)].variable.spec;
        bytes += volume(part.box) * static_cast<std::int64_t>(bytes_of(spec.dtype));
      }
  return bytes;
}

const std::vector<Shared>& Routes::parts(std::size_t list, std::int64_t giver, std::int64_t taker) {
  const auto [found, is_new] = parts_.try_emplace({list, giver, taker});
  if (is_new) found->second = shared_parts(from_, giver, to_, taker, lists_[list]);
  return found->second;
}

HostTile::HostTile(runtime::Executor& executor, int variable, int local_rank)
    : executor_(executor),
      variable_(variable),
      local_rank_(local_rank),
      box_(executor.variable_box(variable, local_rank)) {
  if (device::Exec::is_host()) {
    data_ = executor.variable_tile(variable, local_rank).data;
    return;
  }
  copy_.resize(static_cast<std::size_t>(elements()) * bytes_of(dtype_of(executor, variable)));
  executor.read_variable(variable, local_rank, copy_.data());
  data_ = copy_.data();
}

HostTile::~HostTile() {
  if (changed_ && !copy_.empty()) executor_.write_variable(variable_, local_rank_, copy_.data());
}

void pack_from(const void* tile, const Box& tile_box, DType dtype, const Box& part, Writer& to) {
  const std::size_t size = bytes_of(dtype);
  to.reserve(static_cast<std::size_t>(volume(part)) * size);
  for_each_run_in_tile(tile_box, part, [&](const Run& run) {
    to.append(static_cast<const std::byte*>(tile) + static_cast<std::size_t>(run.global) * size,
              static_cast<std::size_t>(run.count) * size);
  });
}

void pack(runtime::Executor& executor, int local_rank, const Shared& part, Writer& to) {
  HostTile tile(executor, part.from, local_rank);
  pack_from(tile.data(), tile.box(), dtype_of(executor, part.from), part.box, to);
}

void unpack(runtime::Executor& executor, int local_rank, const Shared& part, Reader& from,
            Arrival arrival, double scale) {
  const DType dtype = dtype_of(executor, part.to);
  const std::size_t size = bytes_of(dtype);
  HostTile tile(executor, part.to, local_rank);
  tile.mark_changed();
  const std::byte* begin = from.take(static_cast<std::size_t>(volume(part.box)) * size);
  for_each_run_in_tile(tile.box(), part.box, [&](const Run& run) {
    auto* to = static_cast<std::byte*>(tile.data()) + static_cast<std::size_t>(run.global) * size;
    const std::byte* source = begin + static_cast<std::size_t>(run.local) * size;
    if (arrival == Arrival::replace)
      std::memcpy(to, source, static_cast<std::size_t>(run.count) * size);
    else if (dtype == DType::f64)
      add_run<double>(to, source, run.count, scale);
    else
      add_run<float>(to, source, run.count, scale);
  });
}

void clear(runtime::Executor& executor, int variable) {
  for (int r = 0; r < executor.local_ranks(); ++r) {
    HostTile tile(executor, variable, r);
    tile.mark_changed();
    std::memset(tile.data(), 0,
                static_cast<std::size_t>(tile.elements()) * bytes_of(dtype_of(executor, variable)));
  }
}

}  // namespace tessera::train
