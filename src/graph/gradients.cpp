// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/base/error.hpp"
#include "tessera/graph/graph.hpp"

namespace tessera {
namespace {

SumFunction sum_function = nullptr;
OnesFunction ones_function = nullptr;

/// Nodes through which a target reaches the loss: only these are walked.
std::vector<bool> nodes_on_path(const Graph& graph, int loss, const std::vector<Tensor>& targets) {
  std::vector<bool> reached(static_cast<std::size_t>(graph.tensor_count()));
  for (const auto& target : targets) reached[static_cast<std::size_t>(target.id())] = true;
  std::vector<bool> on_path(graph.nodes().size());
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = graph.nodes()[n];
    for (int input : node.inputs)
      on_path[n] = on_path[n] || reached[static_cast<std::size_t>(input)];
    if (on_path[n])
      for (int output : node.outputs) reached[static_cast<std::size_t>(output)] = true;
  }
  std::vector<bool> needed(static_cast<std::size_t>(graph.tensor_count()));
  needed[static_cast<std::size_t>(loss)] = true;
  for (std::size_t n = graph.nodes().size(); n-- > 0;) {
    const Node& node = graph.nodes()[n];
    bool used = false;
    for (int output : node.outputs) used = used || needed[static_cast<std::size_t>(output)];
    on_path[n] = on_path[n] && used;
    if (on_path[n])
      for (int input : node.inputs) needed[static_cast<std::size_t>(input)] = true;
  }
  return on_path;
}

}  // namespace

void set_gradient_sum(SumFunction function) {
  sum_function = function;
}
void set_gradient_ones(OnesFunction function) {
  ones_function = function;
}

std::vector<Tensor> gradients(Tensor loss, const std::vector<Tensor>& targets) {
  TESSERA_CHECK(loss.shape().rank() == 0, "gradients of '", loss.name(), "' ",
                loss.shape().to_string(), ": only of a scalar");
  TESSERA_CHECK(sum_function && ones_function, "gradients before ops::install");
  Graph& graph = loss.graph();
  const auto on_path = nodes_on_path(graph, loss.id(), targets);
  std::vector<std::vector<Tensor>> pieces(static_cast<std::size_t>(graph.tensor_count()));
  const Graph::Scope scope(graph, "gradient");
  pieces[static_cast<std::size_t>(loss.id())] = {ones_function(graph, loss.spec())};

  const auto total = [&](int id) -> Tensor {
    auto& list = pieces[static_cast<std::size_t>(id)];
    if (list.size() > 1) list = {sum_function(graph, list)};
    return list.empty() ? Tensor() : list[0];
  };
  for (std::size_t n = on_path.size(); n-- > 0;) {
    if (!on_path[n]) continue;
    const Node node = graph.nodes()[n];  // a copy: gradient operations are appended below
    std::vector<Tensor> inputs, outputs, output_gradients;
    for (int id : node.inputs) inputs.emplace_back(&graph, id);
    bool any = false;
    for (int id : node.outputs) {
      outputs.emplace_back(&graph, id);
      output_gradients.push_back(total(id));
      any = any || output_gradients.back();
    }
    if (!any) continue;
    const Graph::Scope inner(graph, node.name);
    const auto input_gradients = node.operation->gradient(inputs, outputs, output_gradients);
    TESSERA_CHECK(input_gradients.size() == inputs.size(), node.name, ": gradient gives ",
                  input_gradients.size(), " tensors for ", inputs.size(), " inputs");
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!input_gradients[i]) continue;
      TESSERA_CHECK(input_gradients[i].shape() == inputs[i].shape(), node.name,
                    ": gradient of input ", i, " is ", input_gradients[i].shape().to_string(),
                    ", the input ", inputs[i].shape().to_string());
      pieces[static_cast<std::size_t>(node.inputs[i])].push_back(input_gradients[i]);
    }
  }
  std::vector<Tensor> result;
  for (const auto& target : targets) result.push_back(total(target.id()));
  return result;
}

}  // namespace tessera
