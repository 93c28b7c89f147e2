// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/replicate/model.hpp"

#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"
#include "tessera/replicate/replica_context.hpp"

namespace tessera::replicate {

Tensor Batch::operator[](const std::string& name) const {
  const auto found = inputs.find(name);
  if (found != inputs.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [known, tensor] : inputs) names.push_back(known);
  throw Error(concat("the model has no input '", name, "'; its inputs are ", join(names, ", ")));
}

Tensor Batch::row_weights() const {
  const auto found = inputs.find("weights");
  if (!padded || found == inputs.end()) return {};
  const Shape& shape = found->second.shape();
  const bool is_of_rows = shape.without(ReplicaContext::kReplica).without("batch").rank() == 0;
  return is_of_rows ? found->second : Tensor();
}

std::vector<InputSpec> Model::inputs(std::int64_t rows, std::int64_t length) const {
  const Shape shape{{"batch", rows}, {"length", length}};
  return {{"tokens", {shape, DType::i32}, vocab()},
          {"targets", {shape, DType::i32}, vocab()},
          {"weights", {shape, DType::f32}}};
}

void add_metric(Graph& graph, const std::string& name, Tensor sum) {
  check_user(sum.shape().rank() == 0, "metric '", name, "' is ", sum.shape().to_string(),
             "; it must be one sum over the batch (nn::weighted_sum)");
  graph.fetch(kMetricPrefix + name, sum);
}

void Model::finish(Graph&) {}

std::shared_ptr<const data::Samples> Model::open_pipeline(const InputContext&) const {
  return nullptr;
}

std::vector<DrawnField> Model::draw(Graph&, const Batch&) {
  return {};
}

Tensor Model::logits(Graph&, const Batch&) {
  return {};
}

std::vector<InputSpec> Model::source_inputs(std::int64_t, std::int64_t) const {
  return {};
}

void Model::encode(Graph&, const Batch&) {
  throw Error("the model has a source and does not encode it");
}

void Model::set_spaces(const Spaces&) {
  throw Error("the model acts and takes no spaces");
}

Tensor Model::act(Graph&, const Batch&) {
  throw Error("the model acts and has no actions");
}

}  // namespace tessera::replicate
