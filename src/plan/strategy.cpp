// SPDX-License-Identifier: BSD-3-Clause
#include "strategy.hpp"

#include <algorithm>
#include <limits>

#include "emitter.hpp"
#include "relayout.hpp"
#include "tessera/base/error.hpp"

namespace tessera::plan {
namespace {

/// A core multiplies and adds about this many times while a byte travels to a neighbour.
constexpr double kFlopsPerByte = 50;

int ruled_dim(const Shape& shape, const std::string& mesh_dim, const Layout& layout) {
  for (int d = 0; d < shape.rank(); ++d)
    if (layout.mesh_dim_of(shape[d].name) == mesh_dim) return d;
  return -1;
}

class DimChooser {
 public:
  DimChooser(const Choice& choice, const MeshShape& mesh, const Layout& layout, int m)
      : choice_(choice), mesh_(mesh), layout_(layout), m_(m) {
    for (const auto& spec : choice.input_specs)
      ruled_inputs_.push_back(ruled_dim(spec.shape, mesh[m].name, layout));
    for (const auto& spec : choice.output_specs)
      ruled_outputs_.push_back(ruled_dim(spec.shape, mesh[m].name, layout));
    // What is at one stage is as good as a partial sum to which the other stages add nothing.
    for (const auto& versions : choice.inputs)
      current_.push_back(versions.back()[m].is_at() ? State::partial_sum() : versions.back()[m]);
    for (const auto& placement : choice.wanted) wanted_.push_back(placement[m]);
  }

  Strategy run() const {
    auto candidates =
        choice_.operation->strategies({choice_.input_specs, choice_.output_specs, current_, wanted_,
                                       ruled_inputs_, ruled_outputs_, mesh_[m_].size});
    candidates.push_back({std::vector<State>(current_.size()), std::vector<State>(wanted_.size())});
    const Strategy* best = nullptr;
    double best_cost = std::numeric_limits<double>::infinity();
    int best_splits = -1;
    for (const auto& candidate : candidates) {
      check(candidate);
      if (!is_consistent(candidate)) continue;
      const double cost = cost_of(candidate);
      const int splits = splits_of(candidate);
      if (cost < best_cost || (cost == best_cost && splits > best_splits)) {
        best = &candidate;
        best_cost = cost;
        best_splits = splits;
      }
    }
    TESSERA_CHECK(best != nullptr, choice_.operation->type(),
                  " has no executable strategy on mesh dim '", mesh_[m_].name, "'");
    return *best;
  }

 private:
  void check(const Strategy& strategy) const {
    TESSERA_CHECK(
        strategy.inputs.size() == current_.size() && strategy.outputs.size() == wanted_.size(),
        "a strategy of ", choice_.operation->type(), " has ", strategy.inputs.size(),
        " inputs and ", strategy.outputs.size(), " outputs");
  }
  /// Partial sums are reduced where they lie: a tensor that is an input twice can't be partial as
  /// one and reduced as the other.
  bool is_consistent(const Strategy& strategy) const {
    for (std::size_t i = 0; i < strategy.inputs.size(); ++i)
      for (std::size_t j = 0; j < i; ++j) {
        const State &a = strategy.inputs[i], &b = strategy.inputs[j];
        if (choice_.tensors[i] == choice_.tensors[j] && a.is_partial() != b.is_partial())
          return false;
      }
    return true;
  }
  static int splits_of(const Strategy& strategy) {
    int splits = 0;
    for (const auto& state : strategy.inputs) splits += state.is_split();
    for (const auto& state : strategy.outputs) splits += state.is_split();
    return splits;
  }
  double cost_of(const Strategy& strategy) const {
    double cost = 0;
    std::vector<Shape> inputs, outputs;
    for (std::size_t i = 0; i < strategy.inputs.size(); ++i) {
      double cheapest = std::numeric_limits<double>::infinity();
      for (const auto& version : choice_.inputs[i])
        cheapest = std::min(
            cheapest, state_bytes(choice_.input_specs[i], version, m_, strategy.inputs[i], mesh_));
      cost += cheapest;
      inputs.push_back(local(choice_.input_specs[i], strategy.inputs[i]));
    }
    for (std::size_t j = 0; j < strategy.outputs.size(); ++j) {
      Placement produced = choice_.wanted[j];
      produced[m_] = strategy.outputs[j];
      cost +=
          strategy.outputs[j].kind == State::Kind::partial_sum
              ? choice_.resting_bytes[j][static_cast<std::size_t>(m_)]
              : state_bytes(choice_.output_specs[j], produced, m_, choice_.wanted[j][m_], mesh_);
      outputs.push_back(local(choice_.output_specs[j], strategy.outputs[j]));
    }
    return cost + own_bytes(strategy) + choice_.operation->flops(inputs, outputs) / kFlopsPerByte;
  }
  /// What the operation sends by itself, with the cuts of the other mesh dims.
  double own_bytes(const Strategy& strategy) const {
    if (strategy.bytes == 0) return 0;
    const TensorSpec& spec = choice_.input_specs[0];
    return strategy.bytes * static_cast<double>(local(spec, State::replicated()).size()) /
           static_cast<double>(std::max<std::int64_t>(1, spec.shape.size()));
  }
  /// Extents if the other mesh dims cut as the rules say: the same for all operands.
  Shape local(const TensorSpec& spec, const State& state) const {
    Placement placement(mesh_.rank());
    for (int m = 0; m < mesh_.rank(); ++m) {
      const int dim = m == m_ ? -1 : ruled_dim(spec.shape, mesh_[m].name, layout_);
      if (dim >= 0) placement[m] = State::split(dim);
    }
    placement[m_] = state;
    return local_shape(spec.shape, placement, mesh_);
  }

  const Choice& choice_;
  const MeshShape& mesh_;
  const Layout& layout_;
  int m_;
  std::vector<int> ruled_inputs_, ruled_outputs_;
  std::vector<State> current_, wanted_;
};

}  // namespace

Chosen choose_strategy(const Choice& choice, const MeshShape& mesh, const Layout& layout) {
  Chosen chosen;
  chosen.inputs.assign(choice.input_specs.size(), Placement(mesh.rank()));
  chosen.outputs.assign(choice.output_specs.size(), Placement(mesh.rank()));
  for (int m = 0; m < mesh.rank(); ++m) {
    if (mesh[m].size == 1) continue;
    if (choice.wanted[0][m].is_at()) {  // one stage runs it: nothing to choose
      for (auto& placement : chosen.inputs) placement[m] = choice.wanted[0][m];
      for (auto& placement : chosen.outputs) placement[m] = choice.wanted[0][m];
      continue;
    }
    const Strategy strategy = DimChooser(choice, mesh, layout, m).run();
    for (std::size_t i = 0; i < strategy.inputs.size(); ++i)
      chosen.inputs[i][m] = strategy.inputs[i];
    for (std::size_t j = 0; j < strategy.outputs.size(); ++j)
      chosen.outputs[j][m] = strategy.outputs[j];
  }
  return chosen;
}

}  // namespace tessera::plan
