// SPDX-License-Identifier: BSD-3-Clause
#include "overlap.hpp"

#include <algorithm>
#include <numeric>
#include <set>

namespace tessera::plan {
namespace {

using program::AllReduceStep;
using program::Buffer;
using program::BufferId;
using program::CollectiveKind;
using program::FinishStep;
using program::RelayoutStep;
using program::Section;
using program::Step;

/// As many as travel side by side in comm.
constexpr std::size_t kMostInAir = 4;

/// The memory that a buffer names: equal for all names of the same memory.
int memory_of(const Section& section, BufferId id) {
  while (section.buffers[static_cast<std::size_t>(id)].alias_of >= 0)
    id = section.buffers[static_cast<std::size_t>(id)].alias_of;
  const int variable = section.buffers[static_cast<std::size_t>(id)].variable;
  return variable >= 0 ? -1 - variable : id;
}

/// Sorted memories of a step's operands.
struct Touched {
  std::vector<int> reads, writes;

  static std::vector<int> memories(const Section& section, const std::vector<BufferId>& ids) {
    std::vector<int> all;
    for (BufferId id : ids) all.push_back(memory_of(section, id));
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return all;
  }
  Touched(const Section& section, const Step& step)
      : reads(memories(section, program::reads_of(step))),
        writes(memories(section, program::writes_of(step))) {}
};

bool meet(const std::vector<int>& a, const std::vector<int>& b) {
  auto i = a.begin();
  auto j = b.begin();
  while (i != a.end() && j != b.end()) {
    if (*i == *j) return true;
    if (*i < *j)
      ++i;
    else
      ++j;
  }
  return false;
}

/// A collective that may fly: started before step `start`, finished before step `finish`.
struct OverlapCandidate {
  std::size_t place;  ///< where it stands
  std::size_t start;
  std::size_t finish;
  std::int64_t bytes;
  int flight = -1;
};

class FlightPlanner {
 public:
  FlightPlanner(Section& section, const MeshShape& mesh, std::int64_t least_bytes)
      : section_(section), mesh_(mesh), least_bytes_(least_bytes) {}

  void run() {
    for (const auto& step : section_.steps) touched_.emplace_back(section_, step);
    for (std::size_t i = 0; i < section_.steps.size(); ++i)
      if (may_fly(i)) candidates_.push_back(widest(i));
    follow();
    admit();
    number();
    if (flights_ > 0) rewrite();
  }

 private:
  std::int64_t payload(std::size_t i) const {
    std::int64_t bytes = 0;
    const auto* relayout = std::get_if<RelayoutStep>(&section_.steps[i]);
    const bool gathers = relayout && relayout->kind == CollectiveKind::all_gather;
    for (BufferId id : gathers ? relayout->outputs : program::reads_of(section_.steps[i]))
      bytes += section_.buffers[static_cast<std::size_t>(id)].bytes;
    return bytes;
  }
  bool may_fly(std::size_t i) const {
    std::int64_t members = 1;
    if (const auto* reduce = std::get_if<AllReduceStep>(&section_.steps[i]))
      members = mesh_.group_size(reduce->mesh_dims);
    if (const auto* relayout = std::get_if<RelayoutStep>(&section_.steps[i]))
      if (relayout->kind != CollectiveKind::all_to_all) members = mesh_[relayout->mesh_dim].size;
    return members > 1 && section_.repeat_of(static_cast<int>(i)) == nullptr &&
           payload(i) >= least_bytes_;
  }

  /// The longest flight that the steps around allow.
  OverlapCandidate widest(std::size_t i) const {
    Step flying = section_.steps[i];
    std::visit(
        [](auto& step) {
          if constexpr (requires { step.flight; }) step.flight = 0;
        },
        flying);
    const Touched begin(section_, flying), end(section_, program::finish_of(flying));
    OverlapCandidate candidate{i, i, i + 1, payload(i)};
    while (candidate.start > 0) {
      const Touched& before = touched_[candidate.start - 1];
      if (meet(before.writes, begin.reads) || meet(before.writes, begin.writes) ||
          meet(before.reads, begin.writes))
        break;
      --candidate.start;
    }
    while (candidate.finish < section_.steps.size()) {
      const Touched& after = touched_[candidate.finish];
      if (meet(after.writes, end.reads) || meet(after.writes, end.writes) ||
          meet(after.reads, end.writes) || meet(after.writes, begin.writes) ||
          meet(after.reads, begin.writes))
        break;
      ++candidate.finish;
    }
    leave_repeats(candidate);
    return candidate;
  }
  void leave_repeats(OverlapCandidate& candidate) const {
    for (const auto& repeat : section_.repeats) {
      const auto first = static_cast<std::size_t>(repeat.first);
      const auto last = static_cast<std::size_t>(repeat.end);
      if (first < candidate.start && candidate.start < last) candidate.start = last;
      if (first < candidate.finish && candidate.finish < last) candidate.finish = first;
    }
  }

  /// A collective starts after those are finished whose results it takes, or whose operands.
  void follow() {
    for (auto after = candidates_.begin(); after != candidates_.end(); ++after)
      for (auto before = candidates_.begin(); before != after; ++before) {
        const Touched &a = touched_[before->place], &b = touched_[after->place];
        if (before->finish > after->start &&
            (meet(a.writes, b.reads) || meet(a.writes, b.writes) || meet(a.reads, b.writes)))
          after->start = before->finish;
      }
  }

  /// In the order of their starts; when too many are under way one that stood before this place is
  /// finished, and if there is none the start is put off until the next one's place.
  void admit() {
    std::vector<std::size_t> queue(candidates_.size());
    std::iota(queue.begin(), queue.end(), std::size_t{0});
    const auto later = [&](std::size_t a, std::size_t b) {
      const OverlapCandidate &x = candidates_[a], &y = candidates_[b];
      return std::pair(x.start, x.place) > std::pair(y.start, y.place);
    };
    std::make_heap(queue.begin(), queue.end(), later);
    while (!queue.empty()) {
      std::pop_heap(queue.begin(), queue.end(), later);
      const std::size_t next = queue.back();
      queue.pop_back();
      OverlapCandidate& candidate = candidates_[next];
      if (!hides(candidate)) continue;
      std::erase_if(
          in_air_, [&](const OverlapCandidate* other) { return other->finish <= candidate.start; });
      if (in_air_.size() == kMostInAir) {
        const auto first =
            std::min_element(in_air_.begin(), in_air_.end(),
                             [](const OverlapCandidate* a, const OverlapCandidate* b) {
                               return a->place < b->place;
                             });
        if ((*first)->place > candidate.start) {
          candidate.start = std::min((*first)->place, candidate.place);
          leave_repeats(candidate);
          if (candidate.start < candidate.place) {
            queue.push_back(next);
            std::push_heap(queue.begin(), queue.end(), later);
          }
          continue;
        }
        (*first)->finish = candidate.start;
        in_air_.erase(first);
      }
      in_air_.push_back(&candidate);
    }
  }

  /// Whether the steps that it passes move as many bytes as it.
  bool hides(const OverlapCandidate& candidate) const {
    std::int64_t bytes = 0;
    for (std::size_t i = candidate.start; i < candidate.finish; ++i) {
      const auto* kernel = std::get_if<program::KernelStep>(&section_.steps[i]);
      if (kernel == nullptr) continue;
      for (const auto* ids : {&kernel->inputs, &kernel->outputs})
        for (BufferId id : *ids) bytes += section_.buffers[static_cast<std::size_t>(id)].bytes;
    }
    return bytes >= candidate.bytes;
  }

  void number() {
    std::sort(candidates_.begin(), candidates_.end(),
              [](const OverlapCandidate& a, const OverlapCandidate& b) {
                return std::pair(a.start, a.place) < std::pair(b.start, b.place);
              });
    for (auto& candidate : candidates_)
      if (hides(candidate)) candidate.flight = flights_++;
  }

  void rewrite() {
    std::vector<Step> steps;
    std::vector<int> moved(section_.steps.size());
    std::vector<const OverlapCandidate*> at(section_.steps.size(), nullptr);
    for (const auto& candidate : candidates_)
      if (candidate.flight >= 0) at[candidate.place] = &candidate;
    std::vector<FinishStep> finishes(static_cast<std::size_t>(flights_));
    for (std::size_t i = 0; i <= section_.steps.size(); ++i) {
      for (const auto& candidate : candidates_)
        if (candidate.flight >= 0 && candidate.finish == i)
          steps.emplace_back(finishes[static_cast<std::size_t>(candidate.flight)]);
      for (const auto& candidate : candidates_)
        if (candidate.flight >= 0 && candidate.start == i) {
          steps.push_back(started(candidate));
          finishes[static_cast<std::size_t>(candidate.flight)] = program::finish_of(steps.back());
        }
      if (i == section_.steps.size()) break;
      moved[i] = static_cast<int>(steps.size());
      if (at[i] == nullptr) steps.push_back(section_.steps[i]);
    }
    for (auto& repeat : section_.repeats) {
      repeat.end = moved[static_cast<std::size_t>(repeat.end - 1)] + 1;
      repeat.first = moved[static_cast<std::size_t>(repeat.first)];
    }
    section_.steps = std::move(steps);
  }
  Step started(const OverlapCandidate& candidate) const {
    Step step = section_.steps[candidate.place];
    if (auto* reduce = std::get_if<AllReduceStep>(&step)) reduce->flight = candidate.flight;
    if (auto* relayout = std::get_if<RelayoutStep>(&step)) relayout->flight = candidate.flight;
    return step;
  }

  Section& section_;
  const MeshShape& mesh_;
  std::int64_t least_bytes_;
  std::vector<Touched> touched_;  // by step
  std::vector<OverlapCandidate> candidates_;
  std::vector<OverlapCandidate*> in_air_;
  int flights_ = 0;
};

/// The gradients in whose memory the bucket's tensors live, each as large as its variable but the
/// last; empty if one lives elsewhere.
std::vector<int> gradients_of(const AllReduceStep& reduce, const Section& section,
                              const Storage& storage) {
  std::vector<int> variables;
  for (BufferId id : reduce.buffers) {
    const Buffer& buffer = section.buffers[static_cast<std::size_t>(id)];
    if (buffer.variable < 0 || buffer.alias_of >= 0 ||
        storage.variable(buffer.variable).kind != Variable::Kind::gradient)
      return {};
    if (id != reduce.buffers.back() && buffer.bytes != storage.bytes(buffer.variable)) return {};
    variables.push_back(buffer.variable);
  }
  return variables;
}

}  // namespace

void reduce_in_place(Section& section, Storage& storage) {
  for (auto& step : section.steps) {
    auto* reduce = std::get_if<AllReduceStep>(&step);
    if (!reduce || reduce->contiguous) continue;
    const auto variables = gradients_of(*reduce, section, storage);
    if (variables.empty() || !storage.put_together(variables)) continue;
    reduce->contiguous = true;
    reduce->staging = -1;
  }
}

void make_flights(Section& section, const MeshShape& mesh, std::int64_t least_bytes) {
  FlightPlanner(section, mesh, least_bytes).run();
}

}  // namespace tessera::plan
