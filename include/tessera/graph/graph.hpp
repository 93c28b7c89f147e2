// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "tessera/graph/operation.hpp"
#include "tessera/graph/tensor.hpp"
#include "tessera/graph/variable.hpp"

namespace tessera {

/// One operation with its operands, in a Graph.
struct Node {
  std::shared_ptr<const Operation> operation;
  std::vector<int> inputs;   ///< tensor ids
  std::vector<int> outputs;  ///< tensor ids
  std::string name;          ///< scoped name, unique in the graph
};

/// The operations of one section over named dims, in the order in which they were added. Pure host
/// code: no layout, no ranks. Variables are read as they are when the section starts; assignments
/// take effect at its end.
class Graph {
 public:
  Graph(std::string section, VariableSet& variables)
      : section_(std::move(section)), variables_(&variables) {}
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  const std::string& section() const { return section_; }
  VariableSet& variables() const { return *variables_; }

  /// Adds an operation; its outputs' specs come from infer. `name` is put under the open scopes and
  /// made unique. UserError of infer is rethrown with the scoped name in front.
  std::vector<Tensor> add(std::shared_ptr<const Operation> operation,
                          const std::vector<Tensor>& inputs, const std::string& name = "");
  /// The same for operations with one output.
  Tensor add1(std::shared_ptr<const Operation> operation, const std::vector<Tensor>& inputs,
              const std::string& name = "");

  /// A value that the host gives in each run, e.g. token ids; every rank gives its tile.
  Tensor input(const std::string& name, TensorSpec spec);
  /// A scalar that the host gives in each run (step, learning rate), equal on all ranks.
  Tensor feed(const std::string& name, DType dtype);
  /// Declares a variable under the open scopes (so "scale" in scope "layer_0" is "layer_0/scale")
  /// and reads it.
  Tensor variable(Variable variable);
  /// Reads a declared variable by its full name; the same Tensor for every read.
  Tensor read(const std::string& full_name);
  /// Makes `value` the variable's value at the end of the section.
  void assign(const std::string& full_name, Tensor value);
  /// Adds `value` to the variable at the end of the section (gradients over micro-batches); with
  /// `first` it is an assignment. A partial value stays partial.
  void accumulate(const std::string& full_name, Tensor value, bool first);
  /// Names a result that the host reads after a run. Partial results of scalars stay partial: the
  /// host sums them over ranks with its own small reduction.
  void fetch(const std::string& name, Tensor value);

  /// RAII: names of operations and variables inside are prefixed "name/".
  class Scope {
   public:
    Scope(Graph& graph, const std::string& name);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Graph& graph_;
    std::size_t length_;
  };
  const std::string& scope() const { return scope_; }
  /// `name` under the open scopes.
  std::string scoped(const std::string& name) const { return scope_ + name; }

  // What the planner reads.
  struct Info {
    TensorSpec spec;
    std::string name;
    int node = -1;      ///< producing node, or -1
    int output = 0;     ///< which of its outputs
    int variable = -1;  ///< read of this variable, or -1
    bool is_input = false;
    bool is_feed = false;
  };
  struct Assignment {
    int variable;
    int tensor;
    bool accumulate;
  };
  struct Fetch {
    std::string name;
    int tensor;
  };
  const std::vector<Node>& nodes() const { return nodes_; }
  std::vector<Node>& nodes() { return nodes_; }
  const Info& info(int tensor) const { return tensors_[static_cast<std::size_t>(tensor)]; }
  int tensor_count() const { return static_cast<int>(tensors_.size()); }
  const std::vector<Assignment>& assignments() const { return assignments_; }
  const std::vector<Fetch>& fetches() const { return fetches_; }

 private:
  Tensor new_tensor(Info info);

  std::string section_;
  VariableSet* variables_;
  std::string scope_;
  std::vector<Node> nodes_;
  std::deque<Info> tensors_;  // deque: references stay valid while operations are added
  std::vector<Assignment> assignments_;
  std::vector<Fetch> fetches_;
  std::map<std::string, int> reads_;
  std::map<std::string, int> names_;
};

/// Gradients of the scalar `loss` with respect to `targets`, by reverse walk over the graph. An
/// entry is empty if the loss does not depend on the target.
std::vector<Tensor> gradients(Tensor loss, const std::vector<Tensor>& targets);

/// Hook for the sum of several gradients of one tensor (an n-ary add); set once by ops.
using SumFunction = Tensor (*)(Graph&, const std::vector<Tensor>&);
void set_gradient_sum(SumFunction function);
/// Hook for the gradient of the loss itself: a constant one of the loss's spec; set once by ops.
using OnesFunction = Tensor (*)(Graph&, const TensorSpec&);
void set_gradient_ones(OnesFunction function);

}  // namespace tessera
