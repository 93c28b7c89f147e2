// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/plan/cost_model.hpp"

#include <algorithm>
#include <cmath>
#include <map>

namespace tessera::plan {
namespace {

using program::CollectiveKind;

/// How many members of a group share a node: ranks are numbered row-major and a node holds
/// neighbours, so the last mesh dims fill it first.
double members_on_node(const MeshShape& mesh, const std::vector<int>& mesh_dims,
                       std::int64_t ranks_per_node) {
  std::int64_t members = 1, stride = 1;
  for (int m = mesh.rank(); m-- > 0;) {
    if (std::find(mesh_dims.begin(), mesh_dims.end(), m) != mesh_dims.end())
      members *= std::clamp<std::int64_t>(ranks_per_node / stride, 1, mesh[m].size);
    stride *= mesh[m].size;
  }
  return static_cast<double>(members);
}

}  // namespace

double collective_seconds(CollectiveKind kind, double bytes, double members, const Link& link) {
  if (members <= 1) return 0;
  const double rounds = std::ceil(std::log2(members)), part = (members - 1) / members;
  switch (kind) {
    case CollectiveKind::all_reduce:
      return std::min(rounds * (link.alpha + bytes * link.beta),
                      2 * rounds * link.alpha + 2 * part * bytes * link.beta);
    case CollectiveKind::all_to_all:
      return (members - 1) * link.alpha + part * bytes * link.beta;
    case CollectiveKind::neighbour_exchange:
      return 2 * link.alpha + bytes * link.beta;  // one message to each side, as a rule
    default:
      return rounds * link.alpha + part * bytes * link.beta;
  }
}

CostModel::CostModel(const Machine& machine, const MeshShape& mesh, std::int64_t ranks_per_node)
    : machine_(machine), mesh_(mesh), ranks_per_node_(ranks_per_node) {
  if (ranks_per_node_ == 0) ranks_per_node_ = machine.ranks_per_node;
  if (ranks_per_node_ == 0 || ranks_per_node_ > mesh.size()) ranks_per_node_ = mesh.size();
}

double CostModel::seconds_of(const Work& work) const {
  auto found = rates_.find(work.kind);
  if (found == rates_.end())
    found = rates_.emplace(work.kind, machine_.rates(work.kind, ranks_per_node_)).first;
  double seconds = 0;
  for (std::size_t u = 0; u < work.units.size(); ++u) seconds += work.units[u] * found->second[u];
  return seconds;
}

double CostModel::members_on_node(const Transfer& transfer) const {
  return plan::members_on_node(mesh_, transfer.mesh_dims, ranks_per_node_);
}

double CostModel::seconds_of(const Transfer& transfer) const {
  if (transfer.count == 0) return 0;
  return collective_seconds(transfer.kind, transfer.bytes, members_on_node(transfer),
                            machine_.link(transfer.kind)) +
         network_seconds_of(transfer);
}

/// Inside the nodes first; then each node exchanges its part once for each of its groups, over one
/// network connection.
double CostModel::network_seconds_of(const Transfer& transfer) const {
  if (transfer.count == 0) return 0;
  const double near = members_on_node(transfer);
  const double nodes = std::ceil(static_cast<double>(mesh_.group_size(transfer.mesh_dims)) / near);
  if (nodes <= 1) return 0;
  const double groups = std::max(1.0, static_cast<double>(ranks_per_node_) / near);
  const Link network{machine_.network_latency, groups / machine_.network_bandwidth};
  return collective_seconds(transfer.kind, transfer.bytes, nodes, network);
}

StepSeconds CostModel::seconds_of(const program::Section& section,
                                  const program::Step& step) const {
  StepSeconds seconds;
  for (const auto& work : works_of(section, step, mesh_)) seconds.compute += seconds_of(work);
  seconds.communication = seconds_of(transfer_of(section, step, mesh_));
  return seconds;
}

namespace {

/// When flights land on the network, which carries one after the other, while a rank goes through a
/// section. Inside a node the ranks' own cores move the data, so that part hides behind nothing.
class Network {
 public:
  void start(int flight, double now, double seconds) {
    free_ = std::max(free_, now) + seconds;
    lands_[flight] = free_;
  }
  double wait(int flight, double now) const { return std::max(0.0, lands_.at(flight) - now); }

 private:
  double free_ = 0;
  std::map<int, double> lands_;
};

}  // namespace

void CostModel::predict(const program::Section& section, std::int64_t runs,
                        Prediction& result) const {
  Network network;
  double now = 0;  // in one run
  for (std::size_t i = 0; i < section.steps.size(); ++i) {
    const auto& step = section.steps[i];
    const auto times = static_cast<double>(section.times(static_cast<int>(i)));
    const auto of_step = static_cast<double>(runs) * times;
    for (const auto& work : works_of(section, step, mesh_)) {
      const double seconds = seconds_of(work);
      now += times * seconds;
      result.compute += of_step * seconds;
      result.by_kind[work.kind] += of_step * seconds;
    }
    double exposed = 0;
    if (const auto* finish = std::get_if<program::FinishStep>(&step))
      exposed = network.wait(finish->flight, now);
    const Transfer transfer = transfer_of(section, step, mesh_);
    if (transfer.count > 0) {
      const double seconds = seconds_of(transfer);
      result.communication += of_step * seconds;
      result.by_mesh_dims[transfer.mesh_dims] += of_step * seconds;
      exposed = times * seconds;
      if (const int flight = program::started_by(step); flight >= 0) {
        exposed -= network_seconds_of(transfer);
        network.start(flight, now + exposed, network_seconds_of(transfer));
      }
    }
    now += exposed;
    result.exposed += static_cast<double>(runs) * exposed;
  }
}

Prediction CostModel::predict(const program::Program& program,
                              const std::vector<SectionRuns>& step) const {
  Prediction result;
  const bool has_stages =
      std::any_of(program.sections.begin(), program.sections.end(), [](const auto& section) {
        return std::any_of(section.steps.begin(), section.steps.end(), [&](const auto& part) {
          return !program::stages_of(section, part).is_all();
        });
      });
  if (has_stages)
    result = predict_stages(program, step, mesh_.find(kStageDim).value());
  else
    for (const auto& runs : step) predict(program.section(runs.section), runs.runs, result);
  // At the end of a step the ranks exchange a few numbers (loss, stops).
  std::vector<int> all;
  for (int m = 0; m < mesh_.rank(); ++m) all.push_back(m);
  result.host = machine_.step_seconds;
  if (mesh_.size() > 1) result.host += seconds_of({CollectiveKind::all_reduce, all, 64, 1});
  result.step = result.compute + result.exposed + result.waiting + result.host;
  return result;
}

}  // namespace tessera::plan
