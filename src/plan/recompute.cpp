// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/plan/recompute.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace tessera::plan {
namespace {

/// Region of each node, by its name, which is the label of its steps.
std::map<std::string, int> regions_by_label(const Graph& graph) {
  std::map<std::string, int> regions;
  for (const auto& node : graph.nodes())
    if (node.region >= 0) regions[node.name] = node.region;
  return regions;
}

}  // namespace

std::vector<RegionCost> region_costs(const Graph& graph, const program::Section& section,
                                     const CostModel& model) {
  const auto regions = regions_by_label(graph);
  std::vector<RegionCost> costs;
  for (const auto& name : graph.regions()) costs.push_back({name, 0, 0});
  std::vector<int> last_step(costs.size(), -1);
  const auto region_of = [&](std::size_t step) {
    const auto found = regions.find(program::label_of(section.steps[step]));
    return found == regions.end() ? -1 : found->second;
  };
  for (std::size_t i = 0; i < section.steps.size(); ++i) {
    const int region = region_of(i);
    if (region < 0) continue;
    const StepSeconds seconds = model.seconds_of(section, section.steps[i]);
    costs[static_cast<std::size_t>(region)].seconds +=
        (seconds.compute + seconds.communication) *
        static_cast<double>(section.times(static_cast<int>(i)));
    last_step[static_cast<std::size_t>(region)] = static_cast<int>(i);
  }
  for (std::size_t i = 0; i < section.steps.size(); ++i) {
    const int region = region_of(i);
    if (region < 0) continue;
    for (program::BufferId id : program::writes_of(section.steps[i])) {
      const auto& buffer = section.buffers[static_cast<std::size_t>(id)];
      // What the region hands on lives as long as before; what only its backward pass reads goes.
      const bool kept = buffer.variable < 0 && buffer.first_step == static_cast<int>(i) &&
                        buffer.last_step > last_step[static_cast<std::size_t>(region)];
      if (kept) costs[static_cast<std::size_t>(region)].bytes += static_cast<double>(buffer.bytes);
    }
  }
  // Patterns tell regions by their names: those of one name are computed again together.
  std::vector<RegionCost> merged;
  for (auto& cost : costs) {
    const auto same = std::find_if(merged.begin(), merged.end(),
                                   [&](const auto& one) { return one.region == cost.region; });
    if (same == merged.end()) {
      merged.push_back(std::move(cost));
      continue;
    }
    same->bytes += cost.bytes;
    same->seconds += cost.seconds;
  }
  return merged;
}

namespace {

/// What a set of the regions looked at so far saves and costs.
struct SetOfRegions {
  double bytes = 0;
  double seconds = 0;
  std::vector<bool> taken;
};

/// So many sets are carried on: enough for every set of a few kinds of regions. Of more, sets that
/// are nearly alike are left out.
constexpr std::size_t kSets = 2048;

/// Leaves the sets than which no other one saves more and costs no more; what is above `enough`
/// counts no further.
std::vector<SetOfRegions> undominated(std::vector<SetOfRegions> sets, double enough) {
  std::stable_sort(sets.begin(), sets.end(), [&](const SetOfRegions& a, const SetOfRegions& b) {
    return std::pair(a.seconds, -std::min(a.bytes, enough)) <
           std::pair(b.seconds, -std::min(b.bytes, enough));
  });
  std::vector<SetOfRegions> kept;
  for (auto& set : sets)
    if (kept.empty() || std::min(set.bytes, enough) > std::min(kept.back().bytes, enough))
      kept.push_back(std::move(set));
  if (kept.size() <= kSets) return kept;
  std::vector<SetOfRegions> fewer;
  for (std::size_t i = 0; i + 1 < kept.size(); i += 2) fewer.push_back(std::move(kept[i]));
  fewer.push_back(std::move(kept.back()));
  return fewer;
}

}  // namespace

std::vector<std::string> choose_regions(const std::vector<RegionCost>& costs, double bytes) {
  if (bytes <= 0) return {};
  std::vector<SetOfRegions> sets{SetOfRegions{}};
  for (const auto& cost : costs) {
    std::vector<SetOfRegions> grown = sets;
    for (auto& set : grown) {
      set.bytes += cost.bytes;
      set.seconds += cost.seconds;
      set.taken.push_back(true);
    }
    for (auto& set : sets) set.taken.push_back(false);
    grown.insert(grown.end(), sets.begin(), sets.end());
    sets = undominated(std::move(grown), bytes);
  }
  const bool enough = sets.back().bytes >= bytes;
  std::vector<std::string> chosen;
  for (std::size_t i = 0; i < costs.size(); ++i)
    if (!enough || sets.back().taken[i]) chosen.push_back(costs[i].region);
  return chosen;
}

}  // namespace tessera::plan
