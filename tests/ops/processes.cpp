// SPDX-License-Identifier: BSD-3-Clause
// Makes check_op run its rows over MPI.
#include "support/op_case.hpp"
#include "support/world.hpp"
#include "tessera/comm/mpi_collectives.hpp"

namespace tessera::test {
namespace {

Processes over_mpi() {
  Processes processes;
  processes.meshes = {"a:" + std::to_string(world().size())};
  if (world().size() == 4) processes.meshes.emplace_back("a:2,b:2");
  processes.collectives = [](const MeshShape& mesh) {
    return std::make_shared<comm::MpiCollectives>(mesh, world());
  };
  return processes;
}

[[maybe_unused]] const bool is_set = [] {
  make_processes = over_mpi;
  return true;
}();

}  // namespace
}  // namespace tessera::test
