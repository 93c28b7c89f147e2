// SPDX-License-Identifier: BSD-3-Clause
#include "section_builder.hpp"

#include <algorithm>

#include "pointwise_program.hpp"
#include "tessera/base/error.hpp"
#include "tessera/program/exchange.hpp"
#include "tessera/shape/tile.hpp"

namespace tessera::plan {

using program::BufferId;
using program::CollectiveKind;

BufferId SectionBuilder::new_buffer(const std::string& name, TensorSpec spec, Placement placement,
                                    Windows windows) {
  program::Buffer buffer;
  buffer.name = name;
  buffer.spec = std::move(spec);
  if (buffer.spec.dtype == DType::bf16 && placement.has_partial()) buffer.spec.dtype = DType::f32;
  buffer.placement = std::move(placement);
  buffer.windows = std::move(windows);
  buffer.bytes = static_cast<std::int64_t>(bytes_of(buffer.spec.dtype));
  for (auto extent : largest_tile(buffer, mesh())) buffer.bytes *= extent;
  section_.buffers.push_back(std::move(buffer));
  return static_cast<BufferId>(section_.buffers.size()) - 1;
}

BufferId SectionBuilder::variable_buffer(int variable, Placement placement) {
  const Variable& declared = storage_.variable(variable);
  const BufferId id = new_buffer(declared.name, declared.spec, std::move(placement));
  section_.buffers.back().variable = variable;
  return id;
}

void SectionBuilder::all_reduce(const std::string& label, program::ReduceOp op,
                                const std::vector<int>& mesh_dims, std::vector<BufferId> buffers) {
  if (mesh().group_size(mesh_dims) == 1 || buffers.empty()) return;
  program::AllReduceStep step;
  step.label = label;
  step.op = op;
  step.mesh_dims = mesh_dims;
  step.contiguous = buffers.size() == 1;
  if (!step.contiguous) {
    std::int64_t bytes = 0;
    for (BufferId id : buffers) bytes += buffer(id).bytes;
    step.staging = staging(label + ":bucket", bytes, buffers[0]);
  }
  for (BufferId id : buffers)
    for (int m : mesh_dims) {
      // The same memory under its new placement: whoever wanted the partial value has read it
      // already.
      State& state = section_.buffers[static_cast<std::size_t>(id)].placement[m];
      if (state.is_partial()) state = State::replicated();
    }
  step.buffers = std::move(buffers);
  section_.steps.emplace_back(std::move(step));
}

void SectionBuilder::copy(const std::string& label, BufferId from, BufferId to) {
  // By memory order, not by name: the two may name their dims differently.
  const int rank = buffer(to).spec.shape.rank();
  TESSERA_CHECK(buffer(from).spec.shape.rank() == rank, label,
                ": a copy between shapes of unequal rank");
  program::KernelStep step;
  step.label = label;
  copy_program(from, to, rank).write_to(step);
  kernel(std::move(step));
}

void SectionBuilder::ring(const std::string& label, int mesh_dim, std::vector<BufferId> inputs,
                          std::vector<BufferId> outputs) {
  program::RingStep step{label, mesh_dim, std::move(inputs), std::move(outputs), -1, -1};
  const std::int64_t ways = mesh()[mesh_dim].size;
  const auto places = [](const program::Buffer& buffer) {
    return buffer.ring.mesh_dim < 0 ? 0 : buffer.ring.places;
  };
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < step.inputs.size(); ++i) {
    const program::Buffer &from = buffer(step.inputs[i]), &to = buffer(step.outputs[i]);
    TESSERA_CHECK(from.spec == to.spec && from.placement == to.placement &&
                      from.spec.dtype == buffer(step.inputs[0]).spec.dtype &&
                      (places(from) + 1 - places(to)) % ways == 0,
                  label, ": a ring moves equal tiles of one type by one place");
    bytes += from.bytes;
  }
  step.send = staging(label + ":send", bytes, step.inputs[0]);
  step.receive = staging(label + ":receive", bytes, step.inputs[0]);
  section_.steps.emplace_back(std::move(step));
}

void SectionBuilder::exchange(program::ExchangeStep step) {
  const auto cuts = [&](BufferId id) {
    auto dims = buffer(id).placement.mesh_dims_splitting(step.dim);
    std::sort(dims.begin(), dims.end());
    return dims;
  };
  step.mesh_dims = cuts(step.inputs[0]);
  std::int64_t rest = static_cast<std::int64_t>(bytes_of(buffer(step.inputs[0]).spec.dtype));
  const auto extents = largest_tile(buffer(step.inputs[0]), mesh());
  for (int d = 0; d < static_cast<int>(extents.size()); ++d)
    if (d != step.dim) rest *= extents[static_cast<std::size_t>(d)];
  for (const auto& operands : {step.inputs, step.outputs})
    for (BufferId id : operands)
      TESSERA_CHECK(
          cuts(id) == step.mesh_dims && buffer(id).spec.dtype == buffer(step.inputs[0]).spec.dtype,
          step.label, ": operands of an exchange are cut alike, by the same mesh dims");
  const auto load = program::load_of(section_.buffers, step, mesh());
  const std::int64_t sent = *std::max_element(load.sent.begin(), load.sent.end());
  const std::int64_t received = *std::max_element(load.received.begin(), load.received.end());
  if (sent == 0)
    step.mesh_dims.clear();
  else {
    step.send = staging(step.label + ":send", sent * rest, step.inputs[0]);
    step.receive = staging(step.label + ":receive", received * rest, step.inputs[0]);
  }
  section_.steps.emplace_back(std::move(step));
}

program::Buffer staging_buffer(const std::string& name, std::int64_t bytes, const Placement& like) {
  program::Buffer buffer;
  buffer.name = name;
  // Counted in words of four bytes; the executor sees to the elements' real type.
  buffer.spec = {Shape{{"words", (bytes + 3) / 4}}, DType::i32};
  buffer.placement = Placement(like.mesh_rank());
  for (int m = 0; m < like.mesh_rank(); ++m)
    if (like[m].is_at()) buffer.placement[m] = like[m];
  buffer.bytes = bytes;
  return buffer;
}

BufferId SectionBuilder::staging(const std::string& name, std::int64_t bytes, BufferId like) {
  section_.buffers.push_back(staging_buffer(name, bytes, buffer(like).placement));
  return static_cast<BufferId>(section_.buffers.size()) - 1;
}

bool SectionBuilder::is_contiguous_along(const Shape& shape, const Placement& placement,
                                         int dim) const {
  const auto extents = largest_tile(shape, placement, mesh());
  std::int64_t before = 1;
  for (int d = 0; d < dim; ++d) before *= extents[static_cast<std::size_t>(d)];
  return before <= 1;
}

BufferId SectionBuilder::change(BufferId from, const Change& change) {
  const program::Buffer old = buffer(from);
  const std::string& label = old.name;
  switch (change.kind) {
    case Change::Kind::slice: {
      program::LocalStep step;
      step.label = label;
      step.kind = program::LocalStep::Kind::slice;
      step.mesh_dim = change.mesh_dims[0];
      step.input = from;
      step.output = new_buffer(old.name, old.spec, change.after);
      const BufferId to = step.output;
      section_.steps.emplace_back(std::move(step));
      return to;
    }
    case Change::Kind::all_reduce: {
      const auto kind = old.placement[change.mesh_dims[0]].kind;
      all_reduce(label,
                 kind == State::Kind::partial_max ? program::ReduceOp::max : program::ReduceOp::sum,
                 change.mesh_dims, {from});
      return from;
    }
    case Change::Kind::neighbour_exchange: {
      program::ExchangeStep step;
      step.label = label;
      step.dim = old.placement[change.mesh_dims[0]].dim;
      step.runs = {{.count = old.spec.shape[step.dim].size}};
      step.inputs = {from};
      step.outputs = {new_buffer(old.name, old.spec, change.after)};
      const BufferId to = step.outputs[0];
      exchange(std::move(step));
      return to;
    }
    case Change::Kind::keep_at_origin:
    case Change::Kind::spread: {
      const int mesh_dim = change.mesh_dims[0];
      const BufferId to = new_buffer(old.name, old.spec, change.after);
      if (buffer(to).spec.dtype != old.spec.dtype) {  // partial sums are kept wider
        const BufferId wide = new_buffer(old.name, buffer(to).spec, old.placement);
        copy(label, from, wide);
        from = wide;
      }
      program::LocalStep step;
      step.label = label;
      step.kind = program::LocalStep::Kind::keep_at_origin;
      if (change.kind == Change::Kind::spread) step.origin = old.placement[mesh_dim].dim;
      step.mesh_dim = mesh_dim;
      step.input = from;
      step.output = to;
      section_.steps.emplace_back(std::move(step));
      return to;
    }
    case Change::Kind::transfer: {
      const int stage_dim = change.mesh_dims[0];
      program::TransferStep step;
      step.label = label;
      step.mesh_dim = stage_dim;
      step.from = old.placement[stage_dim].dim;
      step.to = change.after[stage_dim].dim;
      step.input = from;
      step.output = new_buffer(old.name, old.spec, change.after);
      const BufferId to = step.output;
      section_.steps.emplace_back(std::move(step));
      return to;
    }
    case Change::Kind::reduce_scatter:
      return bucket_change(label, CollectiveKind::reduce_scatter, change.mesh_dims[0], {from},
                           {change.after})[0];
    case Change::Kind::all_gather:
      return bucket_change(label, CollectiveKind::all_gather, change.mesh_dims[0], {from},
                           {change.after})[0];
    case Change::Kind::all_to_all:
      return bucket_change(label, CollectiveKind::all_to_all, change.mesh_dims[0], {from},
                           {change.after})[0];
  }
  TESSERA_CHECK(false, "unknown change");
}

std::vector<BufferId> SectionBuilder::bucket_change(const std::string& label, CollectiveKind kind,
                                                    int mesh_dim, const std::vector<BufferId>& from,
                                                    const std::vector<Placement>& to) {
  program::RelayoutStep step;
  step.label = label;
  step.kind = kind;
  step.mesh_dim = mesh_dim;
  step.inputs = from;
  std::int64_t send = 0, receive = 0;
  for (std::size_t t = 0; t < from.size(); ++t) {
    const program::Buffer old = buffer(from[t]);
    step.outputs.push_back(new_buffer(old.name, old.spec, to[t]));
    send += old.bytes;
    receive += section_.buffers.back().bytes;
  }
  const program::Buffer& first = buffer(from[0]);
  const State& before = first.placement[mesh_dim];
  const State& after = to[0][mesh_dim];
  const bool one = from.size() == 1;
  // A rank sends blocks along the dim that the target cuts, and receives blocks along the dim that
  // the source cut; a rank's whole tile is one block.
  const bool send_as_is =
      one && (kind == CollectiveKind::all_gather ||
              is_contiguous_along(first.spec.shape, first.placement, after.dim));
  const bool receive_as_is = one && (kind == CollectiveKind::reduce_scatter ||
                                     is_contiguous_along(first.spec.shape, to[0], before.dim));
  if (!send_as_is) step.send = staging(label + ":send", send, from[0]);
  if (!receive_as_is) step.receive = staging(label + ":receive", receive, from[0]);
  const auto outputs = step.outputs;
  section_.steps.emplace_back(std::move(step));
  return outputs;
}

}  // namespace tessera::plan
