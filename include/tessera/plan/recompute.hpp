// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include "tessera/graph/graph.hpp"
#include "tessera/plan/cost_model.hpp"

namespace tessera::plan {

/// What computing a region again would save and cost.
struct RegionCost {
  std::string region;  ///< scoped name
  double bytes = 0;    ///< values of the region that are kept from forward to backward
  double seconds = 0;  ///< of its forward steps
};

/// The regions of a section planned without recomputation.
std::vector<RegionCost> region_costs(const Graph& graph, const program::Section& section,
                                     const CostModel& model);

/// Regions to compute again so that about `bytes` fewer are kept, of all such sets the one that
/// costs least time; all if that is not enough.
std::vector<std::string> choose_regions(const std::vector<RegionCost>& costs, double bytes);

}  // namespace tessera::plan
