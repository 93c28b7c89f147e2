// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/shape/mesh_shape.hpp"

#include <limits>

#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"

namespace tessera {
namespace {

/// MPI counts ranks in an int.
constexpr std::int64_t kMostRanks = std::numeric_limits<int>::max();

std::int64_t times(std::int64_t ranks, const Dim& dim) {
  check_user(dim.size <= kMostRanks / ranks, "mesh.shape: mesh dim '", dim.name, "' of size ",
             dim.size, " makes it more than ", kMostRanks, " ranks, the most that MPI counts");
  return ranks * dim.size;
}

}  // namespace

MeshShape::MeshShape(std::vector<Dim> dims) : dims_(std::move(dims)) {
  std::int64_t size = 1;
  for (std::size_t i = 0; i < dims_.size(); ++i) {
    check_user(dims_[i].size >= 1, "mesh.shape: mesh dim '", dims_[i].name, "' has size ",
               dims_[i].size, "; sizes are 1 or more");
    for (std::size_t j = 0; j < i; ++j)
      check_user(dims_[i].name != dims_[j].name, "mesh.shape names mesh dim '", dims_[i].name,
                 "' twice");
    size = times(size, dims_[i]);
  }
}

MeshShape MeshShape::parse(std::string_view text, std::int64_t ranks) {
  std::vector<Dim> dims;
  int star = -1;
  std::int64_t product = 1;
  for (const auto& piece : split(text, ',')) {
    const auto parts = split(piece, ':');
    check_user(parts.size() == 2 && !parts[0].empty(), "mesh.shape = ", text, ": '", piece,
               "' is not of the form name:size, e.g. batch:2,model:4");
    Dim dim{parts[0], 1};
    if (parts[1] == "*") {
      check_user(star < 0, "mesh.shape = ", text, ": only one size may be *");
      check_user(ranks > 0, "mesh.shape = ", text, ": * needs a number of ranks (plan.ranks)");
      star = static_cast<int>(dims.size());
    } else {
      check_user(
          parse_integer(parts[1], dim.size) && dim.size >= 1, "mesh.shape = ", text, ": '",
          parts[1],
          "' is no size; sizes are whole numbers from 1 up, or * for the ranks that are left");
      product = times(product, dim);
    }
    dims.push_back(dim);
  }
  if (star >= 0) {
    check_user(ranks % product == 0, "mesh.shape = ", text, ": ", ranks,
               " ranks can't be shared out over ", product, "; start a multiple of ", product,
               " ranks");
    dims[static_cast<std::size_t>(star)].size = ranks / product;
  }
  MeshShape mesh(std::move(dims));
  if (ranks > 0)
    check_user(mesh.size() == ranks, "mesh.shape = ", text, " needs ", mesh.size(), " ranks, but ",
               ranks, ranks == 1 ? " was" : " were", " started; start mpiexec -n ", mesh.size(),
               " or let one size be *, e.g. ", mesh.rank() ? mesh[0].name : std::string("batch"),
               ":*");
  return mesh;
}

std::int64_t MeshShape::size() const {
  std::int64_t size = 1;
  for (const auto& dim : dims_) size *= dim.size;
  return size;
}

std::optional<int> MeshShape::find(std::string_view name) const {
  for (int i = 0; i < rank(); ++i)
    if ((*this)[i].name == name) return i;
  return std::nullopt;
}

Coordinates MeshShape::coordinates(std::int64_t rank) const {
  Coordinates at(dims_.size());
  for (int i = this->rank() - 1; i >= 0; --i) {
    at[static_cast<std::size_t>(i)] = static_cast<int>(rank % (*this)[i].size);
    rank /= (*this)[i].size;
  }
  return at;
}

std::int64_t MeshShape::rank_of(const Coordinates& coordinates) const {
  std::int64_t rank = 0;
  for (int i = 0; i < this->rank(); ++i)
    rank = rank * (*this)[i].size + coordinates[static_cast<std::size_t>(i)];
  return rank;
}

std::int64_t MeshShape::group_size(const std::vector<int>& mesh_dims) const {
  std::int64_t size = 1;
  for (int dim : mesh_dims) size *= (*this)[dim].size;
  return size;
}

std::string MeshShape::to_string() const {
  std::vector<std::string> pieces;
  for (const auto& dim : dims_) pieces.push_back(dim.name + ":" + std::to_string(dim.size));
  return join(pieces, ",");
}

}  // namespace tessera
