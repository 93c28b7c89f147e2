// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "tessera/shape/tensor_spec.hpp"

namespace tessera {

/// Where a variable's first value comes from: a function of the global index alone.
struct Initializer {
  enum class Kind : std::uint8_t { constant, normal, uniform };
  Kind kind = Kind::constant;
  /// Constant value, or mean of the normal, or middle of the uniform distribution.
  double mean = 0;
  /// Standard deviation of the normal; half width of the uniform distribution.
  double scale = 0;

  static Initializer constant(double value) { return {Kind::constant, value, 0}; }
  static Initializer normal(double stddev) { return {Kind::normal, 0, stddev}; }
  static Initializer uniform(double half_width) { return {Kind::uniform, 0, half_width}; }
};

/// In place of a logical device's index: on all of them.
inline constexpr int kEverywhere = -1;

/// "logical device 2", or "all logical devices".
std::string device_text(int device);

/// A tensor that outlives a section.
struct Variable {
  enum class Kind : std::uint8_t {
    weight,    ///< trained parameter
    slot,      ///< optimizer state; may be stored split further (optim.shard)
    state,     ///< other saved state: running statistics, averages
    gradient,  ///< carried from `micro` to `update`, may be partial, never saved
    cache,     ///< keys and values of text under way; zero at the start, never saved
  };
  std::string name;  ///< scoped, unique: "layer_0/attention/query"
  TensorSpec spec;
  Kind kind = Kind::weight;
  Initializer initializer;
  /// Weight: takes part in weight decay (not norms and biases). Set by who declares it.
  bool decay = true;
  /// Weight: gets gradients and updates.
  bool trainable = true;
  /// Slot, gradient and copy of a weight: name of the weight that it belongs to.
  std::string of;
  /// The name of which first values are drawn; "": its own. A copy begins equal to its weight.
  std::string drawn_as = {};
  /// Logical device on which it lives; kEverywhere: on all. One that belongs to a weight (`of`)
  /// lives with it, a scalar everywhere.
  int device = kEverywhere;

  /// Part of a checkpoint.
  bool is_saved() const { return kind != Kind::gradient && kind != Kind::cache; }
};

/// All variables of a Task, shared by the graphs of its sections. Names are unique.
class VariableSet {
 public:
  /// Declares a variable, or returns the index of an equal declaration; Error if one of the same
  /// name has another spec or kind.
  int declare(Variable variable);
  int find(const std::string& name) const;  ///< index, or -1
  int size() const { return static_cast<int>(variables_.size()); }
  const Variable& operator[](int index) const {
    return variables_[static_cast<std::size_t>(index)];
  }
  Variable& operator[](int index) { return variables_[static_cast<std::size_t>(index)]; }
  auto begin() const { return variables_.begin(); }
  auto end() const { return variables_.end(); }
  /// Logical devices of the model (Graph::Device); 1: nothing is placed by hand.
  std::int64_t logical_devices() const { return logical_devices_; }
  void set_logical_devices(std::int64_t count) { logical_devices_ = count; }
  /// Elements of all weights: the number of parameters.
  std::int64_t parameters() const;

 private:
  std::deque<Variable> variables_;  // references stay valid while variables are declared
  std::map<std::string, int> index_;
  std::int64_t logical_devices_ = 1;
};

}  // namespace tessera
