// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/graph/graph.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"

namespace tessera {

const TensorSpec& Tensor::spec() const {
  TESSERA_CHECK(graph_ != nullptr, "an empty Tensor has no spec");
  return graph_->info(id_).spec;
}

const std::string& Tensor::name() const {
  TESSERA_CHECK(graph_ != nullptr, "an empty Tensor has no name");
  return graph_->info(id_).name;
}

Tensor Graph::new_tensor(Info info) {
  tensors_.push_back(std::move(info));
  return {this, tensor_count() - 1};
}

std::vector<Tensor> Graph::add(std::shared_ptr<const Operation> operation,
                               const std::vector<Tensor>& inputs, const std::string& name) {
  Node node;
  node.name = scoped(name.empty() ? operation->type() : name);
  if (const int uses = names_[node.name]++; uses > 0) node.name += "_" + std::to_string(uses);
  std::vector<TensorSpec> specs;
  for (const auto& input : inputs) {
    TESSERA_CHECK(input && &input.graph() == this, node.name,
                  ": an input is empty or of another graph");
    node.inputs.push_back(input.id());
    specs.push_back(input.spec());
  }
  std::vector<TensorSpec> results;
  try {
    results = operation->infer(specs);
  } catch (const UserError& error) {
    throw UserError(concat(node.name, ": ", error.what()));
  }
  std::vector<Tensor> outputs;
  for (std::size_t i = 0; i < results.size(); ++i) {
    Info info;
    info.spec = std::move(results[i]);
    info.name = i == 0 ? node.name : node.name + ":" + std::to_string(i);
    info.node = static_cast<int>(nodes_.size());
    info.output = static_cast<int>(i);
    outputs.push_back(new_tensor(std::move(info)));
    node.outputs.push_back(outputs.back().id());
  }
  node.operation = std::move(operation);
  node.region = region_;
  node.device = place(node);
  nodes_.push_back(std::move(node));
  return outputs;
}

Tensor Graph::add1(std::shared_ptr<const Operation> operation, const std::vector<Tensor>& inputs,
                   const std::string& name) {
  const auto outputs = add(std::move(operation), inputs, name);
  TESSERA_CHECK(outputs.size() == 1, outputs.empty() ? name : outputs[0].name(), " has ",
                outputs.size(), " outputs where one is wanted");
  return outputs[0];
}

Tensor Graph::input(const std::string& name, TensorSpec spec) {
  Info info;
  info.spec = std::move(spec);
  info.name = name;
  info.is_input = true;
  return new_tensor(std::move(info));
}

Tensor Graph::feed(const std::string& name, DType dtype) {
  check_user(dtype == DType::f32 || dtype == DType::f64, "feed '", name, "' has dtype ",
             name_of(dtype), "; the host gives f32 or f64, cast it");
  for (int i = 0; i < tensor_count(); ++i)
    if (info(i).is_feed && info(i).name == name && info(i).spec.dtype == dtype) return {this, i};
  Info info;
  info.spec.dtype = dtype;
  info.name = name;
  info.is_feed = true;
  return new_tensor(std::move(info));
}

Tensor Graph::variable(Variable variable) {
  variable.name = scoped(variable.name);
  if (device_ != kByInputs) variable.device = device_;
  const std::string name = variable.name;
  if (copy_.size() > 0 && variable.kind == Variable::Kind::weight) {
    variable.kind = Variable::Kind::state;
    variable.of = name.substr(0, static_cast<std::size_t>(copy_.begin)) +
                  name.substr(static_cast<std::size_t>(copy_.end));
    variable.drawn_as = variable.of;
  }
  variables_->declare(std::move(variable));
  return read(name);
}

Tensor Graph::read(const std::string& full_name) {
  const auto found = reads_.find(full_name);
  if (found != reads_.end()) return {this, found->second};
  const int index = variables_->find(full_name);
  TESSERA_CHECK(index >= 0, "section '", section_, "' reads variable '", full_name,
                "', which is not declared");
  Info info;
  info.spec = (*variables_)[index].spec;
  info.name = full_name;
  info.variable = index;
  const Tensor tensor = new_tensor(std::move(info));
  reads_[full_name] = tensor.id();
  return tensor;
}

void Graph::assign(const std::string& full_name, Tensor value) {
  accumulate(full_name, value, true);
}

void Graph::accumulate(const std::string& full_name, Tensor value, bool first) {
  const int index = variables_->find(full_name);
  TESSERA_CHECK(index >= 0, "section '", section_, "' assigns variable '", full_name,
                "', which is not declared");
  TESSERA_CHECK((*variables_)[index].spec.shape == value.shape(), "variable '", full_name, "' ",
                (*variables_)[index].spec.shape.to_string(), " is assigned ",
                value.shape().to_string());
  for (const auto& assignment : assignments_)
    TESSERA_CHECK(assignment.variable != index, "section '", section_, "' assigns variable '",
                  full_name, "' twice");
  assignments_.push_back({index, value.id(), !first});
}

void Graph::fetch(const std::string& name, Tensor value) {
  fetches_.push_back({name, value.id()});
}

Graph::Scope::Scope(Graph& graph, const std::string& name)
    : graph_(graph), length_(graph.scope_.size()) {
  graph_.scope_ += name + "/";
}

Graph::Scope::~Scope() {
  graph_.scope_.resize(length_);
}

Graph::Copy::Copy(Graph& graph, const std::string& name)
    : graph_(graph), outer_(graph.copy_), scope_(graph, name) {
  const auto end = static_cast<std::int64_t>(graph.scope_.size());
  graph.copy_ = {end - static_cast<std::int64_t>(name.size()) - 1, end};
}

Graph::Copy::~Copy() {
  graph_.copy_ = outer_;
}

Graph::Device::Device(Graph& graph, std::int64_t index) : graph_(graph), outer_(graph.device_) {
  const std::int64_t count = graph.variables().logical_devices();
  check_user(index >= kEverywhere && index < count, "logical device ", index, " of a model with ",
             count, count == 1 ? " logical device" : " logical devices",
             "; they are counted from 0 (Model::logical_devices says how many there are)");
  // One device is no choice: operations stay free.
  if (count > 1) graph_.device_ = static_cast<int>(index);
}

Graph::Device::~Device() {
  graph_.device_ = outer_;
}

int Graph::device_of(int tensor) const {
  const Info& known = info(tensor);
  if (known.variable >= 0) return (*variables_)[known.variable].device;
  return known.node >= 0 ? nodes_[static_cast<std::size_t>(known.node)].device : kEverywhere;
}

/// The device on which a new node runs.
int Graph::place(const Node& node) const {
  if (device_ != kByInputs) return device_;
  int with_dims = -1, scalar = -1;  // tensors that say where
  bool several = false;
  for (int input : node.inputs) {
    const int device = device_of(input);
    if (device == kEverywhere) continue;
    int& found = info(input).spec.shape.rank() > 0 ? with_dims : scalar;
    if (found >= 0 && device_of(found) != device) {
      check_user(&found == &scalar, node.name, ": '", info(found).name, "' ",
                 info(found).spec.shape.to_string(), " is on ", device_text(device_of(found)),
                 ", '", info(input).name, "' ", info(input).spec.shape.to_string(), " on ",
                 device_text(device),
                 "; say where the operation shall run: open a "
                 "logical_device(k) around it");
      several = true;
    }
    found = input;
  }
  if (with_dims >= 0) return device_of(with_dims);
  return scalar < 0 || several ? kEverywhere : device_of(scalar);
}

Graph::Region::Region(Graph& graph, const std::string& name)
    : graph_(graph), outer_(graph.region_) {
  graph_.regions_.push_back(graph.scoped(name));
  graph_.region_ = static_cast<int>(graph_.regions_.size()) - 1;
}

Graph::Region::~Region() {
  graph_.region_ = outer_;
}

std::vector<Tensor> Graph::custom_gradient(const std::vector<Tensor>& inputs,
                                           const std::function<std::vector<Tensor>()>& forward,
                                           GradientFunction gradient) {
  const std::size_t begin = nodes_.size();
  const auto outputs = forward();
  CustomGradient custom;
  custom.function = std::move(gradient);
  for (const auto& input : inputs) custom.inputs.push_back(input.id());
  for (const auto& output : outputs) custom.outputs.push_back(output.id());
  for (std::size_t n = begin; n < nodes_.size(); ++n)
    nodes_[n].custom = static_cast<int>(customs_.size());
  customs_.push_back(std::move(custom));
  return outputs;
}

bool Graph::is_recomputed(int region) const {
  if (region < 0) return false;
  const std::string& name = regions_[static_cast<std::size_t>(region)];
  return std::any_of(recompute_.begin(), recompute_.end(),
                     [&](const auto& pattern) { return matches_pattern(pattern, name); });
}

}  // namespace tessera
