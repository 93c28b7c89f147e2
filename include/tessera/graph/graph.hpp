// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/graph/operation.hpp"
#include "tessera/graph/tensor.hpp"
#include "tessera/graph/variable.hpp"
#include "tessera/shape/tile.hpp"

namespace tessera {

/// One operation with its operands, in a Graph.
struct Node {
  std::shared_ptr<const Operation> operation;
  std::vector<int> inputs;   ///< tensor ids
  std::vector<int> outputs;  ///< tensor ids
  std::string name;          ///< scoped name, unique in the graph
  int region = -1;           ///< index of the innermost Graph::Region around it, or -1
  int custom = -1;           ///< index of the CustomGradient that it belongs to, or -1
  int reversible = -1;       ///< index of the ReversibleBlock that it belongs to, or -1
  int device = kEverywhere;  ///< logical device on which it runs
};

/// Gradients with respect to inputs, out of inputs, outputs and the outputs' gradients (empty where
/// nothing depends on an output). An entry may be empty: that input has no gradient.
using GradientFunction = std::function<std::vector<Tensor>(
    std::span<const Tensor> inputs, std::span<const Tensor> outputs,
    std::span<const Tensor> output_gradients)>;

/// Operations whose gradient is a user's function instead of their own.
struct CustomGradient {
  std::vector<int> inputs;   ///< tensor ids
  std::vector<int> outputs;  ///< tensor ids
  GradientFunction function;
};

/// y1 = x1 + f(x2), y2 = x2 + g(y1), by tensor ids; f's and g's operations as ranges of nodes.
struct ReversibleBlock {
  int x1, x2, y1, y2;
  int f, g;  ///< what f and g gave
  std::size_t f_begin, f_end, g_begin, g_end;
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
  /// Says that the section runs so many times after `first`, which works on a step's first
  /// micro-batch as this one does on the others: where there are stages, both become one section.
  void follow(std::string first, std::int64_t times) {
    follows_ = std::move(first);
    times_ = times;
  }
  const std::string& follows() const { return follows_; }
  std::int64_t times() const { return times_; }
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
  /// A scalar, f32 or f64, that the host gives in each run (step, learning rate), equal on all
  /// ranks.
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
  /// RAII: a scope in which weights are declared as copies of those of the same names outside: kind
  /// state, with the same first values, never trained (the target networks of Lillicrap et al.
  /// 2016; nn::follow moves them).
  class Copy {
   public:
    Copy(Graph& graph, const std::string& name);
    ~Copy();
    Copy(const Copy&) = delete;
    Copy& operator=(const Copy&) = delete;

   private:
    Graph& graph_;
    Interval outer_;
    Scope scope_;
  };
  /// RAII: operations added and variables made while it lives are put on one logical device, a part
  /// of the replica that is chosen by hand. What they read of other devices comes as a message, and
  /// gradients take the same way back. An operation outside runs where the tensors are that it
  /// reads; it may read scalars of several devices, which are combined over them, but of several
  /// devices no tensor with dims (UserError). Logical devices are put over the mesh dim `stage` in
  /// blocks, so without it the model is the same on one rank.
  class Device {
   public:
    /// `index` kEverywhere: on all devices, what is read of some being brought to all.
    /// UserError unless index < VariableSet::logical_devices().
    Device(Graph& graph, std::int64_t index);
    ~Device();
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;

   private:
    Graph& graph_;
    int outer_;
  };
  /// The device of a tensor: of the operation that gives it, or of the variable.
  int device_of(int tensor) const;

  /// RAII: the operations added while it lives are a part of the forward pass that may be computed
  /// again in the backward pass instead of being kept (activation checkpointing; Chen et al.,
  /// "Training Deep Nets with Sublinear Memory Cost", 2016). Whether it is, recompute() says. Draws
  /// are functions of names and positions, so what is computed again is bitwise the same.
  class Region {
   public:
    Region(Graph& graph, const std::string& name);
    ~Region();
    Region(const Region&) = delete;
    Region& operator=(const Region&) = delete;

   private:
    Graph& graph_;
    int outer_;
  };
  /// Patterns (* and ?) of the regions, by their scoped names, that gradients() computes again;
  /// none: all values are kept.
  void set_recompute(std::vector<std::string> patterns) { recompute_ = std::move(patterns); }
  bool is_recomputed(int region) const;
  /// Scoped names of the regions, by index.
  const std::vector<std::string>& regions() const { return regions_; }

  /// Adds the operations of `forward`, which gives the outputs, with a gradient of their own. What
  /// `forward` reads besides `inputs` gets no gradient.
  std::vector<Tensor> custom_gradient(const std::vector<Tensor>& inputs,
                                      const std::function<std::vector<Tensor>()>& forward,
                                      GradientFunction gradient);

  /// The two halves of a stream of reversible residual blocks.
  struct Halves {
    Tensor first, second;
  };
  /// y1 = x1 + f(x2), y2 = x2 + g(y1). The backward pass computes x1 and x2 back out of y1 and y2,
  /// so a stack of such blocks keeps two tensors however deep it is (Gomez et al., "The Reversible
  /// Residual Network", 2017). f and g may read weights; they must not read each other's values.
  Halves reversible(Halves x, const std::function<Tensor(Tensor)>& f,
                    const std::function<Tensor(Tensor)>& g);
  const std::vector<CustomGradient>& custom_gradients() const { return customs_; }
  const std::vector<ReversibleBlock>& reversible_blocks() const { return reversibles_; }

  /// Index of the first node of the (last) backward pass: nodes().size() if there is none.
  std::size_t backward_begin() const { return std::min(backward_, nodes_.size()); }
  void set_backward_begin() { backward_ = nodes_.size(); }

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
  int place(const Node& node) const;

  std::string section_;
  std::string follows_;
  std::int64_t times_ = 1;
  VariableSet* variables_;
  std::string scope_;
  Interval copy_;  // the part of scope_ that names a copy; empty: none is open
  std::vector<std::string> regions_;
  int region_ = -1;  // open now
  static constexpr int kByInputs = -2;
  int device_ = kByInputs;  // open now
  std::size_t backward_ = static_cast<std::size_t>(-1);
  std::vector<std::string> recompute_;
  std::vector<CustomGradient> customs_;
  std::vector<ReversibleBlock> reversibles_;
  std::vector<Node> nodes_;
  std::deque<Info> tensors_;  // deque: references stay valid while operations are added
  std::vector<Assignment> assignments_;
  std::vector<Fetch> fetches_;
  std::map<std::string, int> reads_;
  std::map<std::string, int> names_;
};

/// Gradients of the scalar `loss` with respect to `targets`, by reverse walk over the graph. An
/// entry is empty if the loss does not depend on the target. Before the walk enters a region that
/// is recomputed, the region's operations are added once more, for the walk to use. Gradients are
/// ordinary operations, so gradients may be taken of what is computed of them (gradient penalties,
/// Hessian-vector products); composites whose gradient is one operation are then written out in
/// primitives (ops/expansion.hpp).
std::vector<Tensor> gradients(Tensor loss, const std::vector<Tensor>& targets);

/// The same walk over the operations that were added when the graph had `first` nodes already, and
/// from any outputs with given gradients: how an operation's own gradient may differentiate what it
/// has just added. Nothing is recomputed.
std::vector<Tensor> pull_back(Graph& graph, std::size_t first, const std::vector<Tensor>& outputs,
                              const std::vector<Tensor>& output_gradients,
                              const std::vector<Tensor>& targets);

/// Hook for the sum of several gradients of one tensor (an n-ary add); set once by ops.
using SumFunction = Tensor (*)(Graph&, const std::vector<Tensor>&);
void set_gradient_sum(SumFunction function);
/// Hook for a - b, with which reversible blocks compute back; set once by ops.
using DifferenceFunction = Tensor (*)(Tensor a, Tensor b);
void set_difference(DifferenceFunction function);
/// Hook for the gradient of the loss itself: a constant one of the loss's spec; set once by ops.
using OnesFunction = Tensor (*)(Graph&, const TensorSpec&);
void set_gradient_ones(OnesFunction function);

}  // namespace tessera
