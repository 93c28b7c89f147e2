// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tessera/comm/communicator.hpp"
#include "tessera/comm/mpi_world.hpp"
#include "tessera/shape/mesh_shape.hpp"

namespace tessera::comm {

/// A MeshShape realised on MPI ranks: a Cartesian communicator of ranks sorted by (node, rank on
/// the node), so that the last mesh dims stay inside a node, and one cached sub-communicator for
/// each set of mesh dims. Freed with the object, which must end before MPI does.
class ProcessorMesh {
 public:
  /// Collective over `world`, whose size must be the mesh's (MeshShape::parse sees to it).
  ProcessorMesh(MeshShape shape, const MpiWorld& world);

  const MeshShape& shape() const { return shape_; }
  /// The ranks of the mesh, in its order.
  const MpiWorld& world() const { return world_; }
  int rank() const { return world_.rank(); }
  const Coordinates& coordinates() const { return coordinates_; }
  MPI_Comm cartesian() const { return cartesian_.get(); }

  /// The ranks that differ only in these mesh dims, row-major by their coordinates (mesh dims in
  /// the mesh's order, whatever the order asked for). Made on the first call, which is collective
  /// over the mesh.
  MPI_Comm along(const std::vector<int>& mesh_dims);

  /// The node of each rank of the mesh.
  const std::vector<int>& nodes() const { return world_.nodes(); }
  /// Whether some group along these mesh dims has ranks on several nodes; equal on all ranks.
  bool crosses_nodes(const std::vector<int>& mesh_dims) const;
  /// Names of the mesh dims that do, for the header.
  std::vector<std::string> dims_across_nodes() const;

 private:
  MeshShape shape_;
  MpiWorld world_;
  Communicator cartesian_;
  Coordinates coordinates_;
  std::map<std::vector<int>, Communicator> along_;
};

}  // namespace tessera::comm
