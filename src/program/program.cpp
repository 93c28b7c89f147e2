// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/program/program.hpp"

#include <bit>

#include "tessera/base/error.hpp"
#include "tessera/base/hash.hpp"

namespace tessera::program {
namespace {

class Hasher {
 public:
  void add(std::uint64_t value) { hash_ = hash_combine(hash_, value); }
  void add(const std::string& text) { add(hash_text(text)); }
  void add(const TensorSpec& spec) {
    add(static_cast<std::uint64_t>(spec.dtype));
    add(spec.shape.to_string());
  }
  template <class T>
  void add_all(const std::vector<T>& values) {
    add(values.size());
    for (const auto& value : values) add(static_cast<std::uint64_t>(value));
  }
  std::uint64_t value() const { return hash_; }

 private:
  std::uint64_t hash_ = 0;
};

void add_step(Hasher& hasher, const Step& step) {
  hasher.add(step.index());
  hasher.add_all(reads_of(step));
  hasher.add_all(writes_of(step));
  if (const auto* kernel = std::get_if<KernelStep>(&step)) {
    hasher.add(kernel->kernel);
    hasher.add(kernel->attributes.hash());
    hasher.add(static_cast<std::uint64_t>(kernel->workspace_offset));
    hasher.add(static_cast<std::uint64_t>(kernel->micro));
  } else if (const auto* reduce = std::get_if<AllReduceStep>(&step)) {
    hasher.add(static_cast<std::uint64_t>(reduce->op));
    hasher.add_all(reduce->mesh_dims);
  } else if (const auto* relayout = std::get_if<RelayoutStep>(&step)) {
    hasher.add(static_cast<std::uint64_t>(relayout->kind));
    hasher.add(static_cast<std::uint64_t>(relayout->mesh_dim));
  } else if (const auto* local = std::get_if<LocalStep>(&step)) {
    hasher.add(static_cast<std::uint64_t>(local->kind));
    hasher.add_all(std::vector<int>{local->mesh_dim, local->origin});
  } else if (const auto* exchange = std::get_if<ExchangeStep>(&step)) {
    hasher.add(static_cast<std::uint64_t>(exchange->mode));
    hasher.add(static_cast<std::uint64_t>(exchange->dim));
    hasher.add_all(exchange->mesh_dims);
    hasher.add(std::bit_cast<std::uint64_t>(exchange->fill));
    for (const auto& run : exchange->runs)
      hasher.add_all(std::vector<std::int64_t>{run.input, run.output, run.count, run.from,
                                               run.from_step, run.to, run.to_step});
  } else if (const auto* ring = std::get_if<RingStep>(&step)) {
    hasher.add(static_cast<std::uint64_t>(ring->mesh_dim));
  } else if (const auto* finish = std::get_if<FinishStep>(&step)) {
    hasher.add(static_cast<std::uint64_t>(finish->flight));
  } else if (const auto* transfer = std::get_if<TransferStep>(&step)) {
    hasher.add_all(std::vector<int>{transfer->mesh_dim, transfer->from, transfer->to});
  }
  hasher.add(static_cast<std::uint64_t>(started_by(step)));
}

void append(std::vector<BufferId>& to, const std::vector<BufferId>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

}  // namespace

const char* name_of(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_reduce:
      return "all_reduce";
    case CollectiveKind::reduce_scatter:
      return "reduce_scatter";
    case CollectiveKind::all_gather:
      return "all_gather";
    case CollectiveKind::all_to_all:
      return "all_to_all";
    case CollectiveKind::neighbour_exchange:
      return "neighbour_exchange";
  }
  return "?";
}

const char* name_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return "sum";
    case ReduceOp::max:
      return "max";
    case ReduceOp::min:
      return "min";
  }
  return "?";
}

Box tile_box(const Buffer& buffer, const MeshShape& mesh, const Coordinates& at,
             std::int64_t iteration) {
  if (buffer.ring.mesh_dim < 0)
    return tessera::tile_box(buffer.spec.shape, buffer.placement, buffer.windows, mesh, at);
  Coordinates there = at;
  int& place = there[static_cast<std::size_t>(buffer.ring.mesh_dim)];
  place =
      static_cast<int>((place + buffer.ring.places + iteration) % mesh[buffer.ring.mesh_dim].size);
  return tessera::tile_box(buffer.spec.shape, buffer.placement, buffer.windows, mesh, there);
}

const Repeat* Section::repeat_of(int step) const {
  for (const auto& repeat : repeats)
    if (repeat.first <= step && step < repeat.end) return &repeat;
  return nullptr;
}

std::int64_t Section::times(int step) const {
  const Repeat* repeat = repeat_of(step);
  return repeat == nullptr ? 1 : repeat->count;
}

std::vector<std::int64_t> largest_tile(const Buffer& buffer, const MeshShape& mesh) {
  return tessera::largest_tile(buffer.spec.shape, buffer.placement, buffer.windows, mesh);
}

std::vector<int> mesh_dims_of(const Step& step) {
  if (const auto* reduce = std::get_if<AllReduceStep>(&step)) return reduce->mesh_dims;
  if (const auto* relayout = std::get_if<RelayoutStep>(&step)) return {relayout->mesh_dim};
  if (const auto* exchange = std::get_if<ExchangeStep>(&step)) return exchange->mesh_dims;
  if (const auto* ring = std::get_if<RingStep>(&step)) return {ring->mesh_dim};
  if (const auto* transfer = std::get_if<TransferStep>(&step)) return {transfer->mesh_dim};
  return {};
}

std::vector<BufferId> reads_of(const Step& step) {
  std::vector<BufferId> reads;
  if (const auto* kernel = std::get_if<KernelStep>(&step)) {
    reads = kernel->inputs;
  } else if (const auto* reduce = std::get_if<AllReduceStep>(&step)) {
    reads = reduce->buffers;
  } else if (const auto* relayout = std::get_if<RelayoutStep>(&step)) {
    reads = relayout->inputs;
  } else if (const auto* local = std::get_if<LocalStep>(&step)) {
    reads = {local->input};
  } else if (const auto* exchange = std::get_if<ExchangeStep>(&step)) {
    reads = exchange->inputs;
  } else if (const auto* ring = std::get_if<RingStep>(&step)) {
    reads = ring->inputs;
  } else if (const auto* finish = std::get_if<FinishStep>(&step)) {
    reads = finish->reads;
  } else if (const auto* transfer = std::get_if<TransferStep>(&step)) {
    reads = {transfer->input};
  }
  return reads;
}

std::vector<BufferId> writes_of(const Step& step) {
  std::vector<BufferId> writes;
  if (const auto* kernel = std::get_if<KernelStep>(&step)) {
    writes = kernel->outputs;
  } else if (const auto* reduce = std::get_if<AllReduceStep>(&step)) {
    // A bucket that is packed comes back to its buffers when its flight ends.
    if (reduce->flight < 0 || reduce->staging < 0) writes = reduce->buffers;
    if (reduce->staging >= 0) writes.push_back(reduce->staging);
  } else if (const auto* relayout = std::get_if<RelayoutStep>(&step)) {
    if (relayout->flight < 0 || relayout->receive < 0) append(writes, relayout->outputs);
    if (relayout->send >= 0) writes.push_back(relayout->send);
    if (relayout->receive >= 0) writes.push_back(relayout->receive);
  } else if (const auto* local = std::get_if<LocalStep>(&step)) {
    writes = {local->output};
  } else if (const auto* exchange = std::get_if<ExchangeStep>(&step)) {
    writes = exchange->outputs;
    if (exchange->send >= 0) writes.push_back(exchange->send);
    if (exchange->receive >= 0) writes.push_back(exchange->receive);
  } else if (const auto* ring = std::get_if<RingStep>(&step)) {
    writes = ring->outputs;
    writes.insert(writes.end(), {ring->send, ring->receive});
  } else if (const auto* finish = std::get_if<FinishStep>(&step)) {
    writes = finish->writes;
  } else if (const auto* transfer = std::get_if<TransferStep>(&step)) {
    writes = {transfer->output};
  }
  return writes;
}

const std::string& label_of(const Step& step) {
  return std::visit([](const auto& s) -> const std::string& { return s.label; }, step);
}

int started_by(const Step& step) {
  if (const auto* reduce = std::get_if<AllReduceStep>(&step)) return reduce->flight;
  if (const auto* relayout = std::get_if<RelayoutStep>(&step)) return relayout->flight;
  return -1;
}

FinishStep finish_of(const Step& start) {
  FinishStep finish{label_of(start), started_by(start), {}, {}};
  if (const auto* reduce = std::get_if<AllReduceStep>(&start)) {
    finish.reads = reduce->buffers;
    if (reduce->staging >= 0) finish.reads = {reduce->staging};
    finish.writes = reduce->buffers;
  } else if (const auto* relayout = std::get_if<RelayoutStep>(&start)) {
    finish.reads = relayout->inputs;
    if (relayout->send >= 0) finish.reads = {relayout->send};
    if (relayout->receive >= 0) finish.reads.push_back(relayout->receive);
    finish.writes = relayout->outputs;
  }
  TESSERA_CHECK(finish.flight >= 0, finish.label, " starts no flight");
  return finish;
}

int stage_of(const Placement& placement) {
  for (int m = 0; m < placement.mesh_rank(); ++m)
    if (placement[m].is_at()) return placement[m].dim;
  return -1;
}

Stages stages_of(const Section& section, const Step& step) {
  if (const auto* transfer = std::get_if<TransferStep>(&step))
    return {transfer->from, transfer->to};
  // What becomes a partial sum is zero on the other stages.
  if (const auto* local = std::get_if<LocalStep>(&step))
    if (local->kind == LocalStep::Kind::keep_at_origin)
      return {stage_of(section.buffers[static_cast<std::size_t>(local->output)].placement)};
  for (const auto& ids : {reads_of(step), writes_of(step)})
    for (BufferId id : ids) {
      const int stage = stage_of(section.buffers[static_cast<std::size_t>(id)].placement);
      if (stage >= 0) return {stage};
    }
  return {};
}

bool Program::has_section(const std::string& name) const {
  for (const auto& section : sections)
    if (section.name == name) return true;
  return false;
}

const Section& Program::section(const std::string& name) const {
  for (const auto& section : sections)
    if (section.name == name) return section;
  throw Error(concat("the program has no section '", name, "'"));
}

std::uint64_t Program::hash() const {
  Hasher hasher;
  hasher.add(mesh.to_string());
  for (const auto& stored : variables) {
    hasher.add(stored.variable.name);
    hasher.add(stored.variable.spec);
    hasher.add(stored.placement.hash());
    hasher.add(static_cast<std::uint64_t>(stored.offset));
  }
  for (const auto& section : sections) {
    hasher.add(section.name);
    for (const auto& buffer : section.buffers) {
      hasher.add(buffer.spec);
      hasher.add(buffer.placement.hash());
      for (const auto& window : buffer.windows)
        hasher.add_all(std::vector<std::int64_t>{window.count, window.stride, window.offset,
                                                 window.extent,
                                                 static_cast<std::int64_t>(window.outside)});
      hasher.add_all(std::vector<std::int64_t>{buffer.ring.mesh_dim, buffer.ring.places});
      hasher.add(static_cast<std::uint64_t>(buffer.offset));
    }
    for (const auto& step : section.steps) add_step(hasher, step);
    for (const auto& repeat : section.repeats)
      hasher.add_all(std::vector<std::int64_t>{repeat.first, repeat.end, repeat.count});
  }
  return hasher.value();
}

}  // namespace tessera::program
