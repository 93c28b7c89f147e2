// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/comm/processor_mesh.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"

namespace tessera::comm {
namespace {

std::vector<int> sizes_of(const MeshShape& shape) {
  std::vector<int> sizes;
  for (const Dim& dim : shape.dims()) sizes.push_back(static_cast<int>(dim.size));
  return sizes;
}

/// Ranks of a node keep their order. An Environment's world is sorted already.
MpiWorld sorted_by_node(const MpiWorld& world) {
  if (std::ranges::is_sorted(world.nodes()))
    return {world.communicator(), world.waiter(), world.nodes()};
  const auto rank = static_cast<std::size_t>(world.rank());
  const int node = world.nodes()[rank];
  std::int64_t before = 0;
  for (std::size_t r = 0; r < world.nodes().size(); ++r)
    before += world.nodes()[r] < node || (world.nodes()[r] == node && r < rank);
  return world.reordered(static_cast<int>(before));
}

/// reorder = 0: the ranks stand in the order that we want (MPICH and Open MPI ignore reorder = 1).
Communicator make_cartesian(const MeshShape& shape, MPI_Comm ranks) {
  const std::vector<int> sizes = sizes_of(shape), periodic(sizes.size(), 0);
  MPI_Comm made = MPI_COMM_NULL;
  TESSERA_MPI(MPI_Cart_create, ranks, shape.rank(), sizes.data(), periodic.data(), 0, &made);
  return Communicator(made);
}

void check_size(const MeshShape& shape, const World& world) {
  TESSERA_CHECK(shape.size() == world.size(), "mesh ", shape.to_string(), " on ", world.size(),
                " ranks");
}

std::vector<int> sorted_set(std::vector<int> mesh_dims, int rank) {
  std::ranges::sort(mesh_dims);
  const auto repeated = std::ranges::unique(mesh_dims);
  mesh_dims.erase(repeated.begin(), repeated.end());
  TESSERA_CHECK(mesh_dims.empty() || (mesh_dims.front() >= 0 && mesh_dims.back() < rank),
                "no such mesh dim");
  return mesh_dims;
}

}  // namespace

ProcessorMesh::ProcessorMesh(MeshShape shape, const MpiWorld& world)
    : shape_((check_size(shape, world), std::move(shape))),
      world_(sorted_by_node(world)),
      cartesian_(make_cartesian(shape_, world_.communicator())),
      coordinates_(shape_.coordinates(world_.rank())) {
  Coordinates found(coordinates_.size());
  if (!found.empty())
    TESSERA_MPI(MPI_Cart_coords, cartesian(), cartesian_.rank(), shape_.rank(), found.data());
  TESSERA_CHECK(cartesian_.rank() == rank() && found == coordinates_,
                "MPI_Cart_create changed the order of ranks");
}

MPI_Comm ProcessorMesh::along(const std::vector<int>& mesh_dims) {
  const auto key = sorted_set(mesh_dims, shape_.rank());
  const auto found = along_.find(key);
  if (found != along_.end()) return found->second.get();

  MPI_Comm made = MPI_COMM_NULL;
  if (key.empty()) {
    // MPICH's MPI_Cart_sub gives most ranks no communicator when it keeps no dim.
    TESSERA_MPI(MPI_Comm_dup, MPI_COMM_SELF, &made);
  } else {
    std::vector<int> keep(static_cast<std::size_t>(shape_.rank()), 0);
    for (int dim : key) keep[static_cast<std::size_t>(dim)] = 1;
    TESSERA_MPI(MPI_Cart_sub, cartesian(), keep.data(), &made);
  }
  Communicator group(made);
  std::int64_t place = 0;
  for (int dim : key)
    place = place * shape_[dim].size + coordinates_[static_cast<std::size_t>(dim)];
  TESSERA_CHECK(group.size() == shape_.group_size(key) && group.rank() == place,
                "MPI_Cart_sub ordered a group in another way");
  return along_.emplace(key, std::move(group)).first->second.get();
}

bool ProcessorMesh::crosses_nodes(const std::vector<int>& mesh_dims) const {
  // A group crosses nodes if some member's node is not that of its first member.
  for (std::int64_t rank = 0; rank < shape_.size(); ++rank) {
    Coordinates first = shape_.coordinates(rank);
    for (int dim : mesh_dims) first[static_cast<std::size_t>(dim)] = 0;
    if (nodes()[static_cast<std::size_t>(rank)] !=
        nodes()[static_cast<std::size_t>(shape_.rank_of(first))])
      return true;
  }
  return false;
}

std::vector<std::string> ProcessorMesh::dims_across_nodes() const {
  std::vector<std::string> names;
  for (int dim = 0; dim < shape_.rank(); ++dim)
    if (crosses_nodes({dim})) names.push_back(shape_[dim].name);
  return names;
}

}  // namespace tessera::comm
