// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/shape/placement.hpp"

#include "tessera/base/hash.hpp"
#include "tessera/base/text.hpp"

namespace tessera {

std::vector<int> Placement::mesh_dims_splitting(int dim) const {
  std::vector<int> outer, inner;
  for (int m = 0; m < mesh_rank(); ++m)
    if ((*this)[m].is_split() && (*this)[m].dim == dim)
      ((*this)[m].inner ? inner : outer).push_back(m);
  outer.insert(outer.end(), inner.begin(), inner.end());
  return outer;
}

std::vector<int> Placement::partial_mesh_dims() const {
  std::vector<int> dims;
  for (int m = 0; m < mesh_rank(); ++m)
    if ((*this)[m].is_partial()) dims.push_back(m);
  return dims;
}

std::vector<int> Placement::replicated_mesh_dims() const {
  std::vector<int> dims;
  for (int m = 0; m < mesh_rank(); ++m)
    if ((*this)[m].is_replicated()) dims.push_back(m);
  return dims;
}

bool Placement::has_partial() const {
  return !partial_mesh_dims().empty();
}

std::string Placement::to_string(const Shape& shape, const MeshShape& mesh) const {
  std::vector<std::string> pieces;
  for (int m = 0; m < mesh_rank(); ++m) {
    const State& state = (*this)[m];
    if (state.is_split())
      pieces.push_back(mesh[m].name + ": split " + shape[state.dim].name +
                       (state.inner ? " (inner)" : ""));
    else if (state.kind == State::Kind::partial_sum)
      pieces.push_back(mesh[m].name + ": partial sum");
    else if (state.kind == State::Kind::partial_max)
      pieces.push_back(mesh[m].name + ": partial max");
    else if (state.is_at())
      pieces.push_back(mesh[m].name + ": at " + std::to_string(state.dim));
  }
  return pieces.empty() ? "replicated" : "{" + join(pieces, ", ") + "}";
}

std::uint64_t Placement::hash() const {
  std::uint64_t hash = 0;
  for (const auto& state : states_)
    hash = hash_combine(hash, static_cast<std::uint64_t>(state.kind) * 4096 +
                                  static_cast<std::uint64_t>(state.dim + 1) * 2 + state.inner);
  return hash;
}

}  // namespace tessera
