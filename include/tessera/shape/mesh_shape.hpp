// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/shape/shape.hpp"

namespace tessera {

/// A rank's coordinates on the processor mesh, one for each mesh dim.
using Coordinates = std::vector<int>;

/// The processor mesh: named dims. Rank and coordinates are related row-major, so the last dim's
/// neighbours have adjacent ranks. A mesh without dims has one rank.
class MeshShape {
 public:
  MeshShape() = default;
  explicit MeshShape(std::vector<Dim> dims);

  /// Parses "batch:2,model:4". One size may be `*`: it takes the ranks that the others leave.
  /// UserError if the text is malformed or its size is not `ranks` (ranks 0: no check, no `*`).
  static MeshShape parse(std::string_view text, std::int64_t ranks);

  int rank() const { return static_cast<int>(dims_.size()); }
  /// Number of ranks.
  std::int64_t size() const;
  const std::vector<Dim>& dims() const { return dims_; }
  const Dim& operator[](int i) const { return dims_[static_cast<std::size_t>(i)]; }
  std::optional<int> find(std::string_view name) const;

  Coordinates coordinates(std::int64_t rank) const;
  std::int64_t rank_of(const Coordinates& coordinates) const;
  /// Product of the sizes of some mesh dims.
  std::int64_t group_size(const std::vector<int>& mesh_dims) const;

  /// "batch:2,model:4"; "" for one rank without dims.
  std::string to_string() const;
  bool operator==(const MeshShape&) const = default;

 private:
  std::vector<Dim> dims_;
};

}  // namespace tessera
