// SPDX-License-Identifier: BSD-3-Clause
// The part of CostModel that knows of stages, which work and wait at different times.
#include <algorithm>

#include "tessera/plan/cost_model.hpp"

namespace tessera::plan {
namespace {

/// One stage's clock, and what it did until then.
struct Clock {
  double now = 0;
  double compute = 0;
  double communication = 0;
  std::map<std::vector<int>, double> by_mesh_dims;
  std::map<std::string, double> by_kind;
  double busy() const { return compute + communication; }
};

}  // namespace

/// All stages go through a section's steps in their one order; a message, and a collective over
/// stages, begins when the last that takes part is there.
Prediction CostModel::predict_stages(const program::Program& program,
                                     const std::vector<SectionRuns>& step, int stage_dim) const {
  std::vector<Clock> clocks(static_cast<std::size_t>(mesh_[stage_dim].size));
  const auto play = [&](const program::Section& section, std::size_t i) {
    const auto& part = section.steps[i];
    const auto stages = program::stages_of(section, part);
    const auto times = static_cast<double>(section.times(static_cast<int>(i)));
    const auto works = works_of(section, part, mesh_);
    const Transfer transfer = transfer_of(section, part, mesh_);
    const double sent = transfer.count == 0 ? 0 : times * seconds_of(transfer);
    const auto& dims = transfer.mesh_dims;
    const bool meet = transfer.count > 0 && std::ranges::find(dims, stage_dim) != dims.end();
    double start = 0;
    for (std::size_t s = 0; s < clocks.size(); ++s)
      if (stages.contain(static_cast<int>(s))) start = std::max(start, clocks[s].now);
    for (std::size_t s = 0; s < clocks.size(); ++s) {
      if (!stages.contain(static_cast<int>(s))) continue;
      Clock& clock = clocks[s];
      if (meet) clock.now = start;
      for (const auto& work : works) {
        const double seconds = times * seconds_of(work);
        clock.now += seconds;
        clock.compute += seconds;
        clock.by_kind[work.kind] += seconds;
      }
      if (transfer.count == 0) continue;
      clock.now += sent;
      clock.communication += sent;
      clock.by_mesh_dims[dims] += sent;
    }
  };
  for (const auto& runs : step)
    for (std::int64_t run = 0; run < runs.runs; ++run) {
      const auto& section = program.section(runs.section);
      for (std::size_t i = 0; i < section.steps.size(); ++i) play(section, i);
    }
  const auto later = [](const Clock& a, const Clock& b) { return a.now < b.now; };
  const auto busier = [](const Clock& a, const Clock& b) { return a.busy() < b.busy(); };
  const double end = std::ranges::max_element(clocks, later)->now;
  const Clock& busiest = *std::ranges::max_element(clocks, busier);
  Prediction result;
  result.compute = busiest.compute;
  result.communication = result.exposed = busiest.communication;
  result.by_mesh_dims = busiest.by_mesh_dims;
  result.by_kind = busiest.by_kind;
  result.waiting = end - busiest.busy();
  double busy = 0;
  for (const Clock& clock : clocks) {
    busy += clock.busy();
    result.stages.push_back(clock.busy());
  }
  result.bubble = end > 0 ? 1 - busy / (end * static_cast<double>(clocks.size())) : 0;
  return result;
}

}  // namespace tessera::plan
