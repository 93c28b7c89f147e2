// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/shape/mesh_shape.hpp"
#include "tessera/shape/placement.hpp"
#include "tessera/shape/shape.hpp"

namespace tessera {

/// Layout rules: tensor dim name -> mesh dim name. A tensor dim goes to at most one mesh dim.
class Layout {
 public:
  using Rule = std::pair<std::string, std::string>;
  Layout() = default;
  explicit Layout(std::vector<Rule> rules);

  /// Parses "batch:batch, vocab:model" (separators `,` or `;`). UserError if malformed or if one
  /// tensor dim is given two mesh dims.
  static Layout parse(std::string_view text);

  const std::vector<Rule>& rules() const { return rules_; }
  /// The mesh dim's name to which a tensor dim is mapped.
  std::optional<std::string> mesh_dim_of(std::string_view tensor_dim) const;
  /// Mesh dim names in the order in which the rules name them first.
  std::vector<std::string> mesh_dims() const;

  /// The placement that the rules give a tensor: split or replicated on each mesh dim. UserError
  /// naming tensor, dims, rule and nearest legal choice if two of its dims go to one mesh dim.
  Placement placement(const std::string& tensor_name, const Shape& shape,
                      const MeshShape& mesh) const;

  /// UserError if a rule names a mesh dim that the mesh lacks (offering a mesh that has it) or a
  /// tensor dim that is not among `tensor_dims`.
  void check_names(const MeshShape& mesh, const std::vector<std::string>& tensor_dims) const;

  std::string to_string() const;

 private:
  std::vector<Rule> rules_;
};

/// The mesh that a deck asks for: `text` parsed for `ranks`, or, if it is empty, the first mesh dim
/// that the rules name over all ranks and the others of size 1.
MeshShape resolve_mesh(std::string_view text, const Layout& layout, std::int64_t ranks);

}  // namespace tessera
