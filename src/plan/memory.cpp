// SPDX-License-Identifier: BSD-3-Clause
#include "memory.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <set>

#include "pointwise_program.hpp"
#include "tessera/base/error.hpp"
#include "tessera/program/mean_share.hpp"

namespace tessera::plan {
namespace {

using program::Buffer;
using program::BufferId;
using program::KernelStep;
using program::Section;
using program::Step;

/// A pointwise kernel may overwrite any input that it reads element by element.
void find_in_place(Section& section) {
  for (auto& step : section.steps) {
    auto* kernel = std::get_if<KernelStep>(&step);
    if (!kernel || kernel->kernel != "pointwise") continue;
    kernel->in_place.clear();
    const auto program = PointwiseProgram::of(*kernel);
    for (std::size_t i = 0; i < kernel->inputs.size(); ++i)
      for (std::size_t j = 0; j < kernel->outputs.size(); ++j) {
        const Buffer& input = section.buffers[static_cast<std::size_t>(kernel->inputs[i])];
        const Buffer& output = section.buffers[static_cast<std::size_t>(kernel->outputs[j])];
        if (input.spec.dtype == output.spec.dtype && input.bytes == output.bytes &&
            input.windows == output.windows && program.is_identity_map(i) &&
            input.spec.shape.rank() == output.spec.shape.rank())
          kernel->in_place.emplace_back(static_cast<int>(i), static_cast<int>(j));
      }
  }
}

bool may_overwrite(const KernelStep& step, BufferId input, BufferId output) {
  bool any = false;
  for (std::size_t i = 0; i < step.inputs.size(); ++i) {
    if (step.inputs[i] != input) continue;
    bool allowed = false;
    for (const auto& [from, to] : step.in_place)
      allowed = allowed || (from == static_cast<int>(i) &&
                            step.outputs[static_cast<std::size_t>(to)] == output);
    if (!allowed) return false;
    any = true;
  }
  return any;
}

BufferId root_of(const Section& section, BufferId id) {
  while (section.buffers[static_cast<std::size_t>(id)].alias_of >= 0)
    id = section.buffers[static_cast<std::size_t>(id)].alias_of;
  return id;
}

/// True if `value` may be computed in the memory of `variable` from its first write on.
bool can_live_in_variable(const Section& section, BufferId value, int variable) {
  const Buffer& buffer = section.buffers[static_cast<std::size_t>(value)];
  if (buffer.variable >= 0 || buffer.alias_of >= 0) return false;
  for (const auto& input : section.inputs)
    if (root_of(section, input.buffer) == value) return false;
  for (const auto& feed : section.feeds)
    if (root_of(section, feed.buffer) == value) return false;
  std::size_t first_write = section.steps.size();
  for (std::size_t i = section.steps.size(); i-- > 0;)
    for (BufferId id : program::writes_of(section.steps[i]))
      if (id == value) first_write = i;
  if (first_write == section.steps.size()) return false;
  if (section.repeat_of(static_cast<int>(first_write)) != nullptr) return false;
  const auto holds_variable = [&](BufferId id) {
    return section.buffers[static_cast<std::size_t>(root_of(section, id))].variable == variable;
  };
  for (std::size_t i = first_write; i < section.steps.size(); ++i)
    for (BufferId id : program::reads_of(section.steps[i])) {
      if (!holds_variable(id)) continue;
      const auto* kernel = std::get_if<KernelStep>(&section.steps[i]);
      if (i != first_write || !kernel || !may_overwrite(*kernel, id, value)) return false;
    }
  return true;
}

void append_copy(Section& section, BufferId from, BufferId to) {
  const Buffer& target = section.buffers[static_cast<std::size_t>(to)];
  KernelStep step;
  step.label = target.name;
  copy_program(from, to, target.spec.shape.rank()).write_to(step);
  section.steps.emplace_back(std::move(step));
}

/// What is fetched, or assigned to another variable, of a variable that is assigned itself: its
/// value at the section's start, kept aside before anything is stored.
void keep_old_values(Draft& draft) {
  Section& section = draft.section;
  std::set<int> assigned;
  for (const auto& store : draft.stores) assigned.insert(store.variable);
  const auto keep = [&](BufferId& id, int own) {
    const int variable = section.buffers[static_cast<std::size_t>(root_of(section, id))].variable;
    if (variable == own || !assigned.contains(variable)) return;
    Buffer copy = section.buffers[static_cast<std::size_t>(id)];
    copy.alias_of = copy.variable = -1;
    section.buffers.push_back(std::move(copy));
    const auto kept = static_cast<BufferId>(section.buffers.size()) - 1;
    append_copy(section, id, kept);
    id = kept;
  };
  for (auto& store : draft.stores) keep(store.value, store.variable);
  for (auto& fetch : section.fetches) keep(fetch.buffer, -1);
}

/// Buffers that share memory, as one piece with one live range.
struct Block {
  std::int64_t bytes = 0;
  std::int64_t offset = 0;
  int first = 1 << 30;
  int last = -1;
  std::uint64_t stages = 0;  ///< bit by stage: where it takes memory
};

/// All stages, or the one that there is.
std::uint64_t stage_bits(int stage) {
  return stage < 0 ? ~std::uint64_t{0} : std::uint64_t{1} << (stage % 64);
}

class MemoryPlanner {
 public:
  explicit MemoryPlanner(Section& section) : section_(section), parent_(section.buffers.size()) {
    std::iota(parent_.begin(), parent_.end(), 0);
  }

  void run() {
    for (std::size_t b = 0; b < section_.buffers.size(); ++b)
      if (section_.buffers[b].alias_of >= 0) parent_[b] = section_.buffers[b].alias_of;
    find_ranges();
    merge_in_place();
    place();
  }

 private:
  std::size_t find(BufferId id) const {
    while (parent_[static_cast<std::size_t>(id)] != id) id = parent_[static_cast<std::size_t>(id)];
    return static_cast<std::size_t>(id);
  }
  bool in_arena(std::size_t root) const { return section_.buffers[root].variable < 0; }

  void touch(BufferId id, int step) {
    Block& block = blocks_[find(id)];
    // An iteration may find what the one before it left: live through the whole Repeat.
    const program::Repeat* repeat = section_.repeat_of(step);
    block.first = std::min(block.first, repeat != nullptr ? repeat->first : step);
    block.last = std::max(block.last, repeat != nullptr ? repeat->end - 1 : step);
  }
  void find_ranges() {
    blocks_.assign(section_.buffers.size(), {});
    for (std::size_t b = 0; b < section_.buffers.size(); ++b) {
      Block& block = blocks_[find(static_cast<BufferId>(b))];
      block.bytes = std::max(block.bytes, section_.buffers[b].bytes);
      block.stages |= stage_bits(program::stage_of(section_.buffers[b].placement));
    }
    const int end = static_cast<int>(section_.steps.size());
    for (const auto& input : section_.inputs) touch(input.buffer, -1);
    for (const auto& feed : section_.feeds) touch(feed.buffer, -1);
    for (int i = 0; i < end; ++i) {
      for (BufferId id : program::reads_of(section_.steps[static_cast<std::size_t>(i)]))
        touch(id, i);
      for (BufferId id : program::writes_of(section_.steps[static_cast<std::size_t>(i)]))
        touch(id, i);
    }
    for (const auto& fetch : section_.fetches) touch(fetch.buffer, end);
  }

  void merge_in_place() {
    for (int i = 0; i < static_cast<int>(section_.steps.size()); ++i) {
      const auto* kernel = std::get_if<KernelStep>(&section_.steps[static_cast<std::size_t>(i)]);
      if (!kernel || section_.repeat_of(i) != nullptr) continue;
      for (const auto& [input, output] : kernel->in_place)
        try_merge(*kernel, kernel->inputs[static_cast<std::size_t>(input)],
                  kernel->outputs[static_cast<std::size_t>(output)], i);
    }
  }
  void try_merge(const KernelStep& step, BufferId input, BufferId output, int i) {
    const std::size_t from = find(input), to = find(output);
    if (from == to || !in_arena(from) || !in_arena(to)) return;
    if (blocks_[from].bytes != blocks_[to].bytes || blocks_[from].last != i ||
        blocks_[to].first != i)
      return;
    // Every operand in that memory must be one that may be overwritten.
    for (BufferId other : step.inputs)
      if (find(other) == from && !may_overwrite(step, other, output)) return;
    for (BufferId other : step.outputs)
      if (other != output && find(other) == from) return;
    parent_[to] = static_cast<BufferId>(from);
    blocks_[from].last = std::max(blocks_[from].last, blocks_[to].last);
    blocks_[from].stages |= blocks_[to].stages;
  }

  /// Largest first, each at the lowest offset that is free over its live range.
  void place() {
    std::vector<Block*> order;
    for (std::size_t b = 0; b < blocks_.size(); ++b)
      if (find(static_cast<BufferId>(b)) == b && in_arena(b) && blocks_[b].last >= -1 &&
          blocks_[b].first <= blocks_[b].last)
        order.push_back(&blocks_[b]);
    add_workspaces(order);
    std::stable_sort(order.begin(), order.end(),
                     [](const Block* a, const Block* b) { return a->bytes > b->bytes; });
    std::vector<const Block*> placed;
    for (Block* block : order) {
      std::vector<const Block*> rivals;
      for (const Block* other : placed)
        if (other->first <= block->last && block->first <= other->last &&
            (other->stages & block->stages) != 0)
          rivals.push_back(other);
      std::sort(rivals.begin(), rivals.end(),
                [](const Block* a, const Block* b) { return a->offset < b->offset; });
      std::int64_t offset = 0;
      for (const Block* rival : rivals) {
        if (offset + block->bytes <= rival->offset) break;
        offset = std::max(offset, align(rival->offset + rival->bytes));
      }
      block->offset = offset;
      section_.arena_bytes = std::max(section_.arena_bytes, align(offset + block->bytes));
      placed.push_back(block);
    }
    write_back();
  }
  void add_workspaces(std::vector<Block*>& order) {
    workspaces_.resize(section_.steps.size());
    for (std::size_t i = 0; i < section_.steps.size(); ++i) {
      std::int64_t scratch = 0;
      if (const auto* kernel = std::get_if<KernelStep>(&section_.steps[i])) {
        scratch = kernel->workspace_bytes;
        const int stage = program::stages_of(section_, section_.steps[i]).at;
        workspaces_[i] = {scratch, 0, static_cast<int>(i), static_cast<int>(i), stage_bits(stage)};
        if (scratch > 0) order.push_back(&workspaces_[i]);
      } else if (const auto* reduce = std::get_if<program::AllReduceStep>(&section_.steps[i])) {
        scratch = bytes(reduce->staging);
      } else if (const auto* relayout = std::get_if<program::RelayoutStep>(&section_.steps[i])) {
        scratch = bytes(relayout->send) + bytes(relayout->receive);
      } else if (const auto* exchange = std::get_if<program::ExchangeStep>(&section_.steps[i])) {
        scratch = bytes(exchange->send) + bytes(exchange->receive);
      } else if (const auto* ring = std::get_if<program::RingStep>(&section_.steps[i])) {
        scratch = bytes(ring->send) + bytes(ring->receive);
      }
      section_.workspace_bytes = std::max(section_.workspace_bytes, align(scratch));
    }
  }
  std::int64_t bytes(BufferId id) const {
    return id < 0 ? 0 : align(section_.buffers[static_cast<std::size_t>(id)].bytes);
  }
  void write_back() {
    for (std::size_t b = 0; b < section_.buffers.size(); ++b) {
      const std::size_t root = find(static_cast<BufferId>(b));
      Buffer& buffer = section_.buffers[b];
      buffer.variable = section_.buffers[root].variable;
      buffer.offset = blocks_[root].offset;
      buffer.first_step = blocks_[root].first;
      buffer.last_step = blocks_[root].last;
    }
    for (std::size_t i = 0; i < section_.steps.size(); ++i)
      if (auto* kernel = std::get_if<KernelStep>(&section_.steps[i]))
        kernel->workspace_offset = workspaces_[i].offset;
  }

  Section& section_;
  std::vector<BufferId> parent_;
  std::vector<Block> blocks_;
  std::vector<Block> workspaces_;
};

}  // namespace

void bind_stores(Draft& draft, const Storage& storage) {
  Section& section = draft.section;
  find_in_place(section);
  keep_old_values(draft);
  for (const auto& store : draft.stores) {
    const BufferId value = store.value;
    Buffer& buffer = section.buffers[static_cast<std::size_t>(value)];
    if (buffer.variable == store.variable) continue;
    const Variable& variable = storage.variable(store.variable);
    // A value that is on all stages must not be written to where others keep other variables.
    const int stage = program::stage_of(*storage.placement(store.variable));
    if (buffer.spec.dtype == variable.spec.dtype && program::stage_of(buffer.placement) == stage &&
        can_live_in_variable(section, value, store.variable)) {
      buffer.variable = store.variable;
      continue;
    }
    Buffer target = buffer;
    target.name = variable.name;
    target.spec = variable.spec;
    if (stage >= 0) target.placement = storage.at_stage(target.placement, stage);
    target.alias_of = -1;
    target.variable = store.variable;
    section.buffers.push_back(std::move(target));
    append_copy(section, value, static_cast<BufferId>(section.buffers.size()) - 1);
  }
}

void plan_memory(Section& section, const MeshShape& mesh, int stages) {
  find_in_place(section);
  MemoryPlanner(section).run();
  std::vector<double> flops(static_cast<std::size_t>(stages)), mean = flops;
  for (std::size_t i = 0; i < section.steps.size(); ++i) {
    const auto* kernel = std::get_if<KernelStep>(&section.steps[i]);
    if (!kernel) continue;
    const auto by = program::stages_of(section, section.steps[i]);
    const double most = kernel->flops * static_cast<double>(section.times(static_cast<int>(i)));
    for (int s = 0; s < stages; ++s)
      if (by.contain(s)) {
        flops[static_cast<std::size_t>(s)] += most;
        mean[static_cast<std::size_t>(s)] +=
            most * kernel->attributes.real_or(program::kMeanShare, 1.0);
      }
  }
  section.flops = *std::max_element(flops.begin(), flops.end());
  section.flops_all_ranks =
      std::accumulate(mean.begin(), mean.end(), 0.0) * static_cast<double>(mesh.size() / stages);
}

}  // namespace tessera::plan
