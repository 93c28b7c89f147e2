// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/plan/recompute.hpp"

#include <algorithm>
#include <map>

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
  std::stable_sort(costs.begin(), costs.end(), [](const RegionCost& a, const RegionCost& b) {
    return a.seconds * b.bytes < b.seconds * a.bytes;
  });
  return costs;
}

std::vector<std::string> choose_regions(const std::vector<RegionCost>& costs, double bytes) {
  std::vector<std::string> chosen;
  for (const auto& cost : costs) {
    if (bytes <= 0) break;
    chosen.push_back(cost.region);
    bytes -= cost.bytes;
  }
  return chosen;
}

}  // namespace tessera::plan
