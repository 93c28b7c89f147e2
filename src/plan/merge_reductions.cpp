// SPDX-License-Identifier: BSD-3-Clause
#include "merge_reductions.hpp"

#include <algorithm>
#include <set>

namespace tessera::plan {

using program::AllReduceStep;
using program::Buffer;
using program::BufferId;

namespace {

/// Beyond that a call is bound by bandwidth and packing costs more than a message.
constexpr std::int64_t kSmallBytes = 1 << 20;

class Merger {
 public:
  explicit Merger(program::Section& section) : section_(section) {}

  void run() {
    std::vector<bool> removed(section_.steps.size(), false);
    std::vector<std::size_t> earlier;  // small reductions, by place
    for (std::size_t i = 0; i < section_.steps.size(); ++i) {
      if (!is_small(i)) continue;
      const auto host = std::find_if(earlier.begin(), earlier.end(),
                                     [&](std::size_t e) { return can_join(e, i); });
      if (host == earlier.end()) {
        earlier.push_back(i);
        continue;
      }
      auto& joint = reduction(*host);
      const auto& mine = reduction(i).buffers;
      joint.buffers.insert(joint.buffers.end(), mine.begin(), mine.end());
      removed[i] = true;
    }
    for (std::size_t e : earlier) pack(reduction(e));
    drop(removed);
  }

 private:
  AllReduceStep& reduction(std::size_t i) { return std::get<AllReduceStep>(section_.steps[i]); }
  const Buffer& buffer(BufferId id) const { return section_.buffers[static_cast<std::size_t>(id)]; }
  BufferId root(BufferId id) const {
    while (buffer(id).alias_of >= 0) id = buffer(id).alias_of;
    return id;
  }

  bool is_small(std::size_t i) const {
    const auto* reduce = std::get_if<AllReduceStep>(&section_.steps[i]);
    if (!reduce || section_.repeat_of(static_cast<int>(i)) != nullptr) return false;
    const Buffer& operand = buffer(reduce->buffers[0]);
    return reduce->buffers.size() == 1 && operand.variable < 0 && operand.bytes <= kSmallBytes;
  }

  /// True if the reduction at `i` may take place at `e` < `i`: nothing between them touches its
  /// operands, so they were complete there, and nobody reads them partial.
  bool can_join(std::size_t e, std::size_t i) {
    const AllReduceStep &host = reduction(e), &mine = reduction(i);
    const auto stage = [&](const AllReduceStep& step) {
      return program::stage_of(buffer(step.buffers[0]).placement);
    };
    if (host.mesh_dims != mine.mesh_dims || host.op != mine.op || stage(host) != stage(mine) ||
        buffer(host.buffers[0]).spec.dtype != buffer(mine.buffers[0]).spec.dtype)
      return false;
    std::set<BufferId> operands;
    for (BufferId id : mine.buffers) operands.insert(root(id));
    for (std::size_t s = e; s < i; ++s) {
      const auto touches = [&](BufferId id) { return operands.contains(root(id)); };
      const auto reads = program::reads_of(section_.steps[s]);
      const auto writes = program::writes_of(section_.steps[s]);
      if (std::any_of(reads.begin(), reads.end(), touches) ||
          std::any_of(writes.begin(), writes.end(), touches))
        return false;
    }
    return true;
  }

  void pack(AllReduceStep& step) {
    if (step.buffers.size() == 1) return;
    step.contiguous = false;
    std::int64_t bytes = 0;
    for (BufferId id : step.buffers) bytes += buffer(id).bytes;
    section_.buffers.push_back(
        staging_buffer(step.label + ":bucket", bytes, buffer(step.buffers[0]).placement));
    step.staging = static_cast<BufferId>(section_.buffers.size()) - 1;
  }

  void drop(const std::vector<bool>& removed) {
    for (auto& repeat : section_.repeats)
      for (int* border : {&repeat.first, &repeat.end})
        *border -= static_cast<int>(std::count(removed.begin(), removed.begin() + *border, true));
    section_.backward_begin -= static_cast<int>(
        std::count(removed.begin(), removed.begin() + section_.backward_begin, true));
    std::vector<program::Step> steps;
    for (std::size_t i = 0; i < removed.size(); ++i)
      if (!removed[i]) steps.push_back(std::move(section_.steps[i]));
    section_.steps = std::move(steps);
  }

  program::Section& section_;
};

}  // namespace

void merge_reductions(Draft& draft) {
  Merger(draft.section).run();
}

}  // namespace tessera::plan
