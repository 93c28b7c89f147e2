// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "tessera/shape/tensor_spec.hpp"

namespace tessera {

class Graph;

/// A handle of a tensor in a Graph: cheap to copy, valid as long as its Graph.
class Tensor {
 public:
  Tensor() = default;
  Tensor(Graph* graph, int id) : graph_(graph), id_(id) {}

  explicit operator bool() const { return graph_ != nullptr; }
  Graph& graph() const { return *graph_; }
  int id() const { return id_; }
  const TensorSpec& spec() const;
  const Shape& shape() const { return spec().shape; }
  DType dtype() const { return spec().dtype; }
  /// Scoped name of the tensor, e.g. "layer_0/ffn/up".
  const std::string& name() const;
  bool operator==(const Tensor&) const = default;

 private:
  Graph* graph_ = nullptr;
  int id_ = -1;
};

}  // namespace tessera
