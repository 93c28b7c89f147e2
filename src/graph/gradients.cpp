// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/base/error.hpp"
#include "tessera/graph/graph.hpp"

namespace tessera {
namespace {

SumFunction sum_function = nullptr;
OnesFunction ones_function = nullptr;
DifferenceFunction difference_function = nullptr;

/// An output from which a walk starts, and its gradient.
struct Seed {
  Tensor output;
  Tensor gradient;
};

/// Nodes from `first` on through which a target reaches an output: only these are walked.
std::vector<bool> nodes_on_path(const Graph& graph, std::size_t first,
                                const std::vector<Seed>& seeds,
                                const std::vector<Tensor>& targets) {
  std::vector<bool> reached(static_cast<std::size_t>(graph.tensor_count()));
  for (const auto& target : targets) reached[static_cast<std::size_t>(target.id())] = true;
  std::vector<bool> on_path(graph.nodes().size());
  for (std::size_t n = first; n < graph.nodes().size(); ++n) {
    const Node& node = graph.nodes()[n];
    for (int input : node.inputs)
      on_path[n] = on_path[n] || reached[static_cast<std::size_t>(input)];
    if (on_path[n])
      for (int output : node.outputs) reached[static_cast<std::size_t>(output)] = true;
  }
  std::vector<bool> needed(static_cast<std::size_t>(graph.tensor_count()));
  for (const auto& seed : seeds) needed[static_cast<std::size_t>(seed.output.id())] = true;
  for (std::size_t n = graph.nodes().size(); n-- > first;) {
    const Node& node = graph.nodes()[n];
    bool used = false;
    for (int output : node.outputs) used = used || needed[static_cast<std::size_t>(output)];
    on_path[n] = on_path[n] && used;
    if (on_path[n])
      for (int input : node.inputs) needed[static_cast<std::size_t>(input)] = true;
  }
  return on_path;
}

/// Regions computed again, and reversible blocks computed back: the tensors that the walk uses
/// instead of those of the forward pass, which then need not be kept.
class Replay {
 public:
  explicit Replay(Graph& graph)
      : graph_(graph), done_(graph.regions().size()), reversed_(graph.reversible_blocks().size()) {
    for (int t = 0; t < graph.tensor_count(); ++t) now_.push_back(t);
  }

  /// Called for each node on the way back. Nodes of a region follow each other, so its last node
  /// comes first, and all that it needs from before the region is there.
  void enter(const Node& node) {
    if (node.reversible >= 0)
      reverse(static_cast<std::size_t>(node.reversible));
    else
      recompute(node.region);
  }
  Tensor tensor(int id) { return {&graph_, now_[static_cast<std::size_t>(id)]}; }

 private:
  void recompute(int region) {
    if (!graph_.is_recomputed(region) || done_[static_cast<std::size_t>(region)]) return;
    done_[static_cast<std::size_t>(region)] = true;
    const Graph::Scope scope(graph_, "again");
    const std::size_t count = graph_.nodes().size();
    for (std::size_t n = 0; n < count; ++n) {
      const Node node = graph_.nodes()[n];  // a copy: the list grows
      if (node.region == region) add_again(node);
    }
  }

  /// The first node that comes is the last one of the block: y1 and y2 are there.
  void reverse(std::size_t index) {
    if (reversed_[index]) return;
    reversed_[index] = true;
    TESSERA_CHECK(difference_function != nullptr, "a reversible block before ops::install");
    const Graph::Scope scope(graph_, "again");
    const ReversibleBlock block = graph_.reversible_blocks()[index];
    for (std::size_t n = block.g_begin; n < block.g_end; ++n) add_again(Node(graph_.nodes()[n]));
    set(block.x2, difference_function(tensor(block.y2), tensor(block.g)));
    for (std::size_t n = block.f_begin; n < block.f_end; ++n) add_again(Node(graph_.nodes()[n]));
    set(block.x1, difference_function(tensor(block.y1), tensor(block.f)));
  }

  void add_again(const Node& node) {
    std::vector<Tensor> inputs;
    for (int id : node.inputs) inputs.push_back(tensor(id));
    const Graph::Device device(graph_, node.device);
    const auto outputs = graph_.add(node.operation, inputs, node.name);
    for (std::size_t i = 0; i < outputs.size(); ++i) set(node.outputs[i], outputs[i]);
  }
  void set(int id, Tensor value) { now_[static_cast<std::size_t>(id)] = value.id(); }

  Graph& graph_;
  std::vector<bool> done_;
  std::vector<bool> reversed_;
  std::vector<int> now_;  // by tensor of the forward pass
};

/// The walk back over the nodes from `first` on.
class Walk {
 public:
  Walk(Graph& graph, std::size_t first, const std::vector<Seed>& seeds,
       const std::vector<Tensor>& targets)
      : graph_(graph),
        first_(first),
        on_path_(nodes_on_path(graph, first, seeds, targets)),
        pieces_(static_cast<std::size_t>(graph.tensor_count())),
        custom_done_(graph.custom_gradients().size()) {
    for (const auto& seed : seeds) pieces_of(seed.output.id()).push_back(seed.gradient);
  }

  /// With `replay`, what is computed again is used in place of what the forward pass had.
  void run(Replay* replay) {
    for (std::size_t n = on_path_.size(); n-- > first_;)
      if (on_path_[n]) step(Node(graph_.nodes()[n]), replay);  // a copy: the list grows
  }
  /// The sum of all gradients that have come to a tensor; empty if none has.
  Tensor total(int id) {
    auto& list = pieces_of(id);
    if (list.size() > 1) {
      const Graph::Device device(graph_, graph_.device_of(id));
      list = {sum_function(graph_, list)};
    }
    return list.empty() ? Tensor() : list[0];
  }

 private:
  std::vector<Tensor>& pieces_of(int id) { return pieces_[static_cast<std::size_t>(id)]; }
  void step(const Node& node, Replay* replay);

  Graph& graph_;
  std::size_t first_;
  std::vector<bool> on_path_;
  std::vector<std::vector<Tensor>> pieces_;  // by tensor
  std::vector<bool> custom_done_;
};

void Walk::step(const Node& node, Replay* replay) {
  CustomGradient custom;
  if (node.custom >= 0) {
    // The group's last node comes first; all that reads its outputs has been walked.
    if (custom_done_[static_cast<std::size_t>(node.custom)]) return;
    custom_done_[static_cast<std::size_t>(node.custom)] = true;
    custom = graph_.custom_gradients()[static_cast<std::size_t>(node.custom)];
  }
  const auto& input_ids = custom.function ? custom.inputs : node.inputs;
  const auto& output_ids = custom.function ? custom.outputs : node.outputs;
  std::vector<Tensor> inputs, outputs, output_gradients;
  bool any = false;
  for (int id : output_ids) {
    output_gradients.push_back(total(id));
    any = any || output_gradients.back();
  }
  if (!any) return;
  if (replay != nullptr) replay->enter(node);
  const auto now = [&](int id) {
    return replay != nullptr ? replay->tensor(id) : Tensor(&graph_, id);
  };
  for (int id : input_ids) inputs.push_back(now(id));
  for (int id : output_ids) outputs.push_back(now(id));
  const Graph::Scope inner(graph_, node.name);
  const Graph::Device device(graph_, node.device);
  const auto input_gradients = custom.function
                                   ? custom.function(inputs, outputs, output_gradients)
                                   : node.operation->gradient(inputs, outputs, output_gradients);
  TESSERA_CHECK(input_gradients.size() == inputs.size(), node.name, ": gradient gives ",
                input_gradients.size(), " tensors for ", inputs.size(), " inputs");
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!input_gradients[i]) continue;
    TESSERA_CHECK(input_gradients[i].shape() == inputs[i].shape(), node.name,
                  ": gradient of input ", i, " is ", input_gradients[i].shape().to_string(),
                  ", the input ", inputs[i].shape().to_string());
    pieces_of(input_ids[i]).push_back(input_gradients[i]);
  }
}

}  // namespace

Graph::Halves Graph::reversible(Halves x, const std::function<Tensor(Tensor)>& f,
                                const std::function<Tensor(Tensor)>& g) {
  TESSERA_CHECK(sum_function != nullptr, "a reversible block before ops::install");
  const std::size_t begin = nodes_.size();
  ReversibleBlock block{};
  block.x1 = x.first.id();
  block.x2 = x.second.id();
  block.f_begin = begin;
  const Tensor change1 = f(x.second);
  block.f_end = nodes_.size();
  const Tensor y1 = sum_function(*this, {x.first, change1});
  block.g_begin = nodes_.size();
  const Tensor change2 = g(y1);
  block.g_end = nodes_.size();
  const Tensor y2 = sum_function(*this, {x.second, change2});
  block.f = change1.id();
  block.g = change2.id();
  block.y1 = y1.id();
  block.y2 = y2.id();
  for (std::size_t n = begin; n < nodes_.size(); ++n)
    nodes_[n].reversible = static_cast<int>(reversibles_.size());
  reversibles_.push_back(block);
  return {y1, y2};
}

void set_gradient_sum(SumFunction function) {
  sum_function = function;
}
void set_difference(DifferenceFunction function) {
  difference_function = function;
}
void set_gradient_ones(OnesFunction function) {
  ones_function = function;
}

std::vector<Tensor> gradients(Tensor loss, const std::vector<Tensor>& targets) {
  TESSERA_CHECK(loss.shape().rank() == 0, "gradients of '", loss.name(), "' ",
                loss.shape().to_string(), ": only of a scalar");
  TESSERA_CHECK(sum_function && ones_function, "gradients before ops::install");
  Graph& graph = loss.graph();
  graph.set_backward_begin();
  const Graph::Scope scope(graph, "gradient");
  Replay replay(graph);
  Walk walk(graph, 0, {{loss, ones_function(graph, loss.spec())}}, targets);
  walk.run(&replay);
  std::vector<Tensor> result;
  for (const auto& target : targets) result.push_back(walk.total(target.id()));
  return result;
}

std::vector<Tensor> pull_back(Graph& graph, std::size_t first, const std::vector<Tensor>& outputs,
                              const std::vector<Tensor>& output_gradients,
                              const std::vector<Tensor>& targets) {
  TESSERA_CHECK(outputs.size() == output_gradients.size(), "pull_back: ", outputs.size(),
                " outputs and ", output_gradients.size(), " gradients");
  std::vector<Seed> seeds;
  for (std::size_t i = 0; i < outputs.size(); ++i)
    seeds.push_back({outputs[i], output_gradients[i]});
  Walk walk(graph, first, seeds, targets);
  walk.run(nullptr);
  std::vector<Tensor> result;
  for (const auto& target : targets) result.push_back(walk.total(target.id()));
  return result;
}

}  // namespace tessera
