// SPDX-License-Identifier: BSD-3-Clause
// The parts of SectionPlanner that put many reductions or gathers into one collective.
#include <algorithm>
#include <map>

#include "section_planner.hpp"

namespace tessera::plan {

using program::BufferId;
using program::CollectiveKind;

namespace {

/// Cuts a list into stretches of at most `limit` bytes (one item at least) on the same stage.
template <class Item, class Bytes, class Stage>
std::vector<std::vector<Item>> cut(std::vector<Item> items, std::int64_t limit, Bytes bytes,
                                   Stage stage) {
  std::stable_sort(items.begin(), items.end(),
                   [&](const Item& a, const Item& b) { return stage(a) < stage(b); });
  std::vector<std::vector<Item>> buckets;
  std::int64_t filled = 0;
  for (const Item& item : items) {
    if (buckets.empty() || filled + bytes(item) > limit ||
        stage(item) != stage(buckets.back().front())) {
      buckets.emplace_back();
      filled = 0;
    }
    buckets.back().push_back(item);
    filled += bytes(item);
  }
  return buckets;
}

}  // namespace

/// A flight has the work of other steps to hide behind, so its buckets are smaller.
std::int64_t SectionPlanner::bucket_bytes() const {
  const auto& options = storage_.options();
  return options.overlap ? std::min(options.bucket_bytes, options.flight_bytes)
                         : options.bucket_bytes;
}

/// The stage where a buffer is.
int SectionPlanner::stage_of(BufferId buffer) const {
  return program::stage_of(builder_.buffer(buffer).placement);
}

/// By buffer: the last step so far that writes its memory.
std::vector<std::size_t> SectionPlanner::last_writes() const {
  const auto& section = builder_.section();
  std::vector<std::size_t> last(section.buffers.size(), 0);
  const auto root = [&](BufferId id) {
    while (builder_.buffer(id).alias_of >= 0) id = builder_.buffer(id).alias_of;
    return static_cast<std::size_t>(id);
  };
  for (std::size_t i = 0; i < section.steps.size(); ++i)
    for (BufferId id : program::writes_of(section.steps[i])) last[root(id)] = i;
  for (std::size_t id = 0; id < last.size(); ++id) last[id] = last[root(static_cast<BufferId>(id))];
  return last;
}

/// Gradients that earlier sections left partial are reduced when the section starts, many in one
/// collective, into the placement of their weights' slots.
void SectionPlanner::reduce_gradients() {
  std::vector<int> tensors;
  std::vector<Gradient> gradients;
  for (int t = 0; t < graph_.tensor_count(); ++t) {
    const int variable = graph_.info(t).variable;
    if (variable < 0 || !used_[static_cast<std::size_t>(t)] ||
        storage_.variable(variable).kind != Variable::Kind::gradient)
      continue;
    tensors.push_back(t);
    gradients.push_back({variable, versions_[static_cast<std::size_t>(t)].back().buffer});
  }
  scatter_gradients(gradients);
  for (std::size_t i = 0; i < tensors.size(); ++i) add_version(tensors[i], gradients[i].buffer);
  all_reduce_gradients(gradients);
  for (int t : tensors) version_in(t, storage_.home(graph_.info(t).variable));
}

void SectionPlanner::scatter_gradients(std::vector<Gradient>& gradients) {
  for (int m = 0; m < storage_.mesh().rank(); ++m) {
    std::vector<std::size_t> chosen;
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      const State& state = builder_.buffer(gradients[i].buffer).placement[m];
      if (state.kind == State::Kind::partial_sum &&
          storage_.home(gradients[i].variable)[m].is_split())
        chosen.push_back(i);
    }
    const auto bytes = [&](std::size_t i) { return builder_.buffer(gradients[i].buffer).bytes; };
    const auto stage = [&](std::size_t i) { return stage_of(gradients[i].buffer); };
    for (const auto& bucket : cut(chosen, bucket_bytes(), bytes, stage)) {
      std::vector<BufferId> from;
      std::vector<Placement> to;
      for (std::size_t i : bucket) {
        from.push_back(gradients[i].buffer);
        to.push_back(builder_.buffer(gradients[i].buffer).placement);
        to.back()[m] = storage_.home(gradients[i].variable)[m];
      }
      const auto outputs =
          builder_.bucket_change("gradients", CollectiveKind::reduce_scatter, m, from, to);
      for (std::size_t k = 0; k < bucket.size(); ++k) gradients[bucket[k]].buffer = outputs[k];
    }
  }
}

void SectionPlanner::all_reduce_gradients(const std::vector<Gradient>& gradients) {
  const auto order = gradient_order(graph_.variables(), storage_);
  std::map<int, int> position;
  for (std::size_t i = 0; i < order.size(); ++i) position[order[i]] = static_cast<int>(i);
  std::map<std::vector<int>, std::vector<Gradient>> groups;  // by partial mesh dims
  for (const auto& gradient : gradients) {
    const auto dims = builder_.buffer(gradient.buffer).placement.partial_mesh_dims();
    if (!dims.empty()) groups[dims].push_back(gradient);
  }
  for (auto& [dims, group] : groups) {
    const auto place = [&](const Gradient& gradient) { return position.at(gradient.variable); };
    std::sort(group.begin(), group.end(),
              [&](const Gradient& a, const Gradient& b) { return place(a) < place(b); });
    // A stretch of memory ends where a neighbour in memory is missing or of another type.
    std::vector<std::vector<Gradient>> stretches;
    for (std::size_t i = 0; i < group.size(); ++i) {
      const auto& buffer = builder_.buffer(group[i].buffer);
      const auto& before = builder_.buffer(group[i > 0 ? i - 1 : 0].buffer);
      const bool adjacent = i > 0 && place(group[i]) == place(group[i - 1]) + 1 &&
                            buffer.variable >= 0 && before.variable >= 0 &&
                            stage_of(group[i].buffer) == stage_of(group[i - 1].buffer) &&
                            buffer.spec.dtype == before.spec.dtype;
      if (!adjacent) stretches.emplace_back();
      stretches.back().push_back(group[i]);
    }
    for (const auto& stretch : stretches)
      for (const auto& bucket : cut(
               stretch, bucket_bytes(),
               [&](const Gradient& gradient) { return builder_.buffer(gradient.buffer).bytes; },
               [&](const Gradient& gradient) { return stage_of(gradient.buffer); })) {
        program::AllReduceStep step;
        step.label = "gradients";
        step.mesh_dims = dims;
        step.contiguous = true;
        for (const auto& gradient : bucket) step.buffers.push_back(gradient.buffer);
        for (BufferId id : step.buffers) {
          auto& placement = builder_.section().buffers[static_cast<std::size_t>(id)].placement;
          for (int m : dims) placement[m] = State::replicated();
        }
        const auto buffers = step.buffers;
        builder_.section().steps.emplace_back(std::move(step));
        for (BufferId id : buffers) refresh(id);
      }
  }
}

/// Gradients that are stored reduced are reduced at the section's end, many in one collective, as
/// `update` does it elsewhere. Of flights those come first that are complete first.
void SectionPlanner::reduce_assigned() {
  const auto buffer_of = [&](std::size_t a) {
    return values_.contains(a)
               ? values_.at(a)
               : versions_[static_cast<std::size_t>(graph_.assignments()[a].tensor)].back().buffer;
  };
  std::vector<std::size_t> assignments;
  std::vector<Gradient> gradients;
  for (std::size_t a = 0; a < graph_.assignments().size(); ++a) {
    const auto& assignment = graph_.assignments()[a];
    const auto& placement = storage_.placement(assignment.variable);
    if (storage_.variable(assignment.variable).kind != Variable::Kind::gradient) continue;
    if (!whole_ && (!placement || placement->has_partial())) continue;
    if (builder_.buffer(buffer_of(a)).placement.has_partial()) assignments.push_back(a);
  }
  if (storage_.options().overlap) {
    const auto last = last_writes();
    const auto ready = [&](std::size_t a) { return last[static_cast<std::size_t>(buffer_of(a))]; };
    std::stable_sort(assignments.begin(), assignments.end(),
                     [&](std::size_t x, std::size_t y) { return ready(x) < ready(y); });
  }
  for (std::size_t a : assignments)
    gradients.push_back({graph_.assignments()[a].variable, buffer_of(a)});
  scatter_gradients(gradients);
  std::map<std::pair<std::vector<int>, DType>, std::vector<BufferId>> groups;
  for (const auto& gradient : gradients) {
    const auto& buffer = builder_.buffer(gradient.buffer);
    const auto dims = buffer.placement.partial_mesh_dims();
    if (dims.empty()) continue;
    // The gradient of a sum of weights is one tensor for all of them: reduced once.
    auto& group = groups[{dims, buffer.spec.dtype}];
    if (std::find(group.begin(), group.end(), gradient.buffer) == group.end())
      group.push_back(gradient.buffer);
  }
  for (const auto& [key, group] : groups)
    for (const auto& bucket : cut(
             group, bucket_bytes(), [&](BufferId id) { return builder_.buffer(id).bytes; },
             [&](BufferId id) { return stage_of(id); })) {
      builder_.all_reduce("gradients", program::ReduceOp::sum, key.first, bucket);
      for (BufferId id : bucket) refresh(id);
    }
  for (std::size_t i = 0; i < assignments.size(); ++i)
    if (values_.contains(assignments[i]))
      values_[assignments[i]] = gradients[i].buffer;
    else
      add_version(graph_.assignments()[assignments[i]].tensor, gradients[i].buffer);
}

/// Values that were computed on a storage split are gathered for their weights, many in one
/// all_gather for each mesh dim.
void SectionPlanner::gather_assigned() {
  for (int m = storage_.mesh().rank() - 1; m >= 0; --m) {
    std::vector<int> chosen;
    for (const auto& assignment : graph_.assignments()) {
      const auto& placement = storage_.placement(assignment.variable);
      const auto& versions = versions_[static_cast<std::size_t>(assignment.tensor)];
      if (!placement || (*placement)[m].is_split()) continue;
      Placement gathered = versions.back().placement;
      if (!gathered[m].is_split() || !gathered[m].inner) continue;
      gathered[m] = State::replicated();
      const auto path = relayout_path(versions.back().placement, gathered);
      const bool known = std::any_of(versions.begin(), versions.end(), [&](const Version& version) {
        return version.placement == *placement;
      });
      const bool same_dtype =
          builder_.buffer(versions.back().buffer).spec.dtype == spec_of(assignment.tensor).dtype;
      if (!known && same_dtype && path.size() == 1) chosen.push_back(assignment.tensor);
    }
    if (storage_.options().overlap) {
      const auto last = last_writes();
      const auto ready = [&](int t) {
        const BufferId id = versions_[static_cast<std::size_t>(t)].back().buffer;
        return last[static_cast<std::size_t>(id)];
      };
      std::stable_sort(chosen.begin(), chosen.end(),
                       [&](int a, int b) { return ready(a) < ready(b); });
    }
    std::stable_sort(chosen.begin(), chosen.end(),
                     [&](int a, int b) { return spec_of(a).dtype < spec_of(b).dtype; });
    std::vector<std::vector<int>> by_dtype;
    for (int t : chosen) {
      if (by_dtype.empty() || spec_of(by_dtype.back()[0]).dtype != spec_of(t).dtype)
        by_dtype.emplace_back();
      by_dtype.back().push_back(t);
    }
    const auto bytes = [&](int t) {
      return builder_.buffer(versions_[static_cast<std::size_t>(t)].back().buffer).bytes *
             storage_.mesh()[m].size;
    };
    for (const auto& list : by_dtype)
      for (const auto& bucket : cut(list, bucket_bytes(), bytes, [&](int t) {
             return stage_of(versions_[static_cast<std::size_t>(t)].back().buffer);
           })) {
        std::vector<BufferId> from;
        std::vector<Placement> to;
        for (int t : bucket) {
          const Version& version = versions_[static_cast<std::size_t>(t)].back();
          from.push_back(version.buffer);
          to.push_back(version.placement);
          to.back()[m] = State::replicated();
        }
        const auto outputs =
            builder_.bucket_change("weights", CollectiveKind::all_gather, m, from, to);
        for (std::size_t i = 0; i < bucket.size(); ++i) add_version(bucket[i], outputs[i]);
      }
  }
}

}  // namespace tessera::plan
