// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/shape/mesh_shape.hpp"
#include "tessera/shape/shape.hpp"

namespace tessera {

/// A tensor's state on one mesh dim.
struct State {
  enum class Kind : std::uint8_t { replicated, split, partial_sum, partial_max, at };
  Kind kind = Kind::replicated;
  /// Split: index of the tensor dim that is cut. At: the coordinate whose ranks hold the tensor;
  /// the others have an empty tile.
  int dim = -1;
  /// Split: the dim is cut after (inside) the cuts of other mesh dims; used for storage splits.
  bool inner = false;

  static State replicated() { return {}; }
  static State split(int dim, bool inner = false) { return {Kind::split, dim, inner}; }
  static State partial_sum() { return {Kind::partial_sum, -1, false}; }
  static State partial_max() { return {Kind::partial_max, -1, false}; }
  static State at(int coordinate) { return {Kind::at, coordinate, false}; }

  bool is_replicated() const { return kind == Kind::replicated; }
  bool is_split() const { return kind == Kind::split; }
  bool is_at() const { return kind == Kind::at; }
  bool is_partial() const { return kind == Kind::partial_sum || kind == Kind::partial_max; }
  bool operator==(const State&) const = default;
};

/// The mesh dim over which a model's logical devices are put, as stages of a pipeline: the state of
/// a tensor there is `at`, or replicated.
inline constexpr const char* kStageDim = "stage";

/// A tensor's state on each mesh dim, in the order of the mesh.
class Placement {
 public:
  Placement() = default;
  explicit Placement(int mesh_rank) : states_(static_cast<std::size_t>(mesh_rank)) {}
  explicit Placement(std::vector<State> states) : states_(std::move(states)) {}

  int mesh_rank() const { return static_cast<int>(states_.size()); }
  const State& operator[](int mesh_dim) const {
    return states_[static_cast<std::size_t>(mesh_dim)];
  }
  State& operator[](int mesh_dim) { return states_[static_cast<std::size_t>(mesh_dim)]; }

  /// Mesh dims that cut tensor dim `dim`, outermost cut first.
  std::vector<int> mesh_dims_splitting(int dim) const;
  std::vector<int> partial_mesh_dims() const;
  std::vector<int> replicated_mesh_dims() const;
  bool has_partial() const;

  /// "{batch: split batch, model: partial sum}".
  std::string to_string(const Shape& shape, const MeshShape& mesh) const;
  std::uint64_t hash() const;
  bool operator==(const Placement&) const = default;

 private:
  std::vector<State> states_;
};

}  // namespace tessera
