// SPDX-License-Identifier: BSD-3-Clause
// The parts of SectionPlanner that put many reductions or gathers into one collective.
#include <algorithm>
#include <map>

#include "section_planner.hpp"

namespace tessera::plan {

using program::BufferId;
using program::CollectiveKind;

namespace {

/// Cuts a list into stretches of at most `limit` bytes (one item at least).
template <class Bytes>
std::vector<std::vector<int>> cut(const std::vector<int>& items, std::int64_t limit, Bytes bytes) {
  std::vector<std::vector<int>> buckets;
  std::int64_t filled = 0;
  for (int item : items) {
    if (buckets.empty() || filled + bytes(item) > limit) {
      buckets.emplace_back();
      filled = 0;
    }
    buckets.back().push_back(item);
    filled += bytes(item);
  }
  return buckets;
}

}  // namespace

/// Gradients that earlier sections left partial are reduced when the section starts, many in one
/// collective, into the placement of their weights' slots.
void SectionPlanner::reduce_gradients() {
  std::vector<int> tensors;
  for (int t = 0; t < graph_.tensor_count(); ++t) {
    const int variable = graph_.info(t).variable;
    if (variable >= 0 && used_[static_cast<std::size_t>(t)] &&
        storage_.variable(variable).kind == Variable::Kind::gradient)
      tensors.push_back(t);
  }
  scatter_gradients(tensors);
  all_reduce_gradients(tensors);
  for (int t : tensors) version_in(t, storage_.home(graph_.info(t).variable));
}

void SectionPlanner::scatter_gradients(const std::vector<int>& tensors) {
  for (int m = 0; m < storage_.mesh().rank(); ++m) {
    std::vector<int> chosen;
    for (int t : tensors) {
      const State& state = versions_[static_cast<std::size_t>(t)].back().placement[m];
      if (state.kind == State::Kind::partial_sum && home_of(t)[m].is_split()) chosen.push_back(t);
    }
    const auto bytes = [&](int t) {
      return builder_.buffer(versions_[static_cast<std::size_t>(t)].back().buffer).bytes;
    };
    for (const auto& bucket : cut(chosen, storage_.options().bucket_bytes, bytes)) {
      std::vector<BufferId> from;
      std::vector<Placement> to;
      for (int t : bucket) {
        const Version& version = versions_[static_cast<std::size_t>(t)].back();
        from.push_back(version.buffer);
        to.push_back(version.placement);
        to.back()[m] = home_of(t)[m];
      }
      const auto outputs =
          builder_.bucket_change("gradients", CollectiveKind::reduce_scatter, m, from, to);
      for (std::size_t i = 0; i < bucket.size(); ++i) add_version(bucket[i], outputs[i]);
    }
  }
}

void SectionPlanner::all_reduce_gradients(const std::vector<int>& tensors) {
  const auto order = gradient_order(graph_.variables(), storage_);
  std::map<int, int> position;
  for (std::size_t i = 0; i < order.size(); ++i) position[order[i]] = static_cast<int>(i);
  std::map<std::vector<int>, std::vector<int>> groups;  // by partial mesh dims
  for (int t : tensors) {
    const auto dims = versions_[static_cast<std::size_t>(t)].back().placement.partial_mesh_dims();
    if (!dims.empty()) groups[dims].push_back(t);
  }
  for (auto& [dims, group] : groups) {
    const auto place = [&](int t) { return position.at(graph_.info(t).variable); };
    std::sort(group.begin(), group.end(), [&](int a, int b) { return place(a) < place(b); });
    const auto buffer_of = [&](int t) {
      return versions_[static_cast<std::size_t>(t)].back().buffer;
    };
    // A stretch of memory ends where a neighbour in memory is missing or of another type.
    std::vector<std::vector<int>> stretches;
    for (std::size_t i = 0; i < group.size(); ++i) {
      const bool adjacent = i > 0 && place(group[i]) == place(group[i - 1]) + 1 &&
                            builder_.buffer(buffer_of(group[i])).variable >= 0 &&
                            builder_.buffer(buffer_of(group[i - 1])).variable >= 0 &&
                            builder_.buffer(buffer_of(group[i])).spec.dtype ==
                                builder_.buffer(buffer_of(group[i - 1])).spec.dtype;
      if (!adjacent) stretches.emplace_back();
      stretches.back().push_back(group[i]);
    }
    for (const auto& stretch : stretches)
      for (const auto& bucket : cut(stretch, storage_.options().bucket_bytes,
                                    [&](int t) { return builder_.buffer(buffer_of(t)).bytes; })) {
        program::AllReduceStep step;
        step.label = "gradients";
        step.mesh_dims = dims;
        step.contiguous = true;
        for (int t : bucket) step.buffers.push_back(buffer_of(t));
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

/// Where a gradient, or a tensor that is assigned to one, is stored once it is reduced.
Placement SectionPlanner::home_of(int tensor) const {
  const int variable = graph_.info(tensor).variable;
  return storage_.home(variable >= 0 ? variable : assigned_to_[static_cast<std::size_t>(tensor)]);
}

/// Gradients that are stored reduced (Part::compute) are reduced at the section's end, many in one
/// collective, as `update` does it elsewhere.
void SectionPlanner::reduce_assigned() {
  std::vector<int> tensors;
  for (const auto& assignment : graph_.assignments()) {
    const auto& placement = storage_.placement(assignment.variable);
    const auto& last = versions_[static_cast<std::size_t>(assignment.tensor)].back().placement;
    if (storage_.variable(assignment.variable).kind == Variable::Kind::gradient && placement &&
        !placement->has_partial() && last.has_partial())
      tensors.push_back(assignment.tensor);
  }
  scatter_gradients(tensors);
  const auto buffer_of = [&](int t) {
    return versions_[static_cast<std::size_t>(t)].back().buffer;
  };
  std::map<std::pair<std::vector<int>, DType>, std::vector<int>> groups;
  for (int t : tensors) {
    const auto& buffer = builder_.buffer(buffer_of(t));
    const auto dims = buffer.placement.partial_mesh_dims();
    if (!dims.empty()) groups[{dims, buffer.spec.dtype}].push_back(t);
  }
  for (const auto& [key, group] : groups)
    for (const auto& bucket : cut(group, storage_.options().bucket_bytes,
                                  [&](int t) { return builder_.buffer(buffer_of(t)).bytes; })) {
      std::vector<BufferId> buffers;
      for (int t : bucket) buffers.push_back(buffer_of(t));
      builder_.all_reduce("gradients", program::ReduceOp::sum, key.first, buffers);
      for (BufferId id : buffers) refresh(id);
    }
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
      for (const auto& bucket : cut(list, storage_.options().bucket_bytes, bytes)) {
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
