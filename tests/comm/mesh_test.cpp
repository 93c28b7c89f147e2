// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/comm/processor_mesh.hpp"

#include <algorithm>

#include "collective_check.hpp"
#include "support/catch.hpp"
#include "support/pmpi_counter.hpp"
#include "support/world.hpp"
#include "tessera/base/error.hpp"

using namespace tessera;
using comm::MpiWorld;
using comm::ProcessorMesh;

namespace {

const MpiWorld& mpi_world() {
  return dynamic_cast<const MpiWorld&>(test::world());
}

std::vector<std::string> meshes() {
  switch (test::world().size()) {
    case 1:
      return {"", "a:1", "a:1,b:1"};
    case 2:
      return {"a:2", "a:2,b:1"};
    default:
      return {"a:4", "a:2,b:2", "a:2,b:1,c:2"};
  }
}

std::vector<int> ranks_of(MPI_Comm group) {
  int size = 0;
  MPI_Comm_size(group, &size);
  std::vector<int> ranks(static_cast<std::size_t>(size));
  const int rank = test::world().rank();
  MPI_Allgather(&rank, 1, MPI_INT, ranks.data(), 1, MPI_INT, group);
  return ranks;
}

}  // namespace

TEST_CASE("each set of mesh dims has its sub-communicator, in row-major order") {
  for (const auto& text : meshes()) {
    ProcessorMesh mesh(MeshShape::parse(text, test::world().size()), mpi_world());
    CHECK(mesh.coordinates() == mesh.shape().coordinates(mesh.rank()));
    for (auto dims : test::subsets(mesh.shape().rank())) {
      const MPI_Comm group = mesh.along(dims);
      const auto expected = test::group_of(mesh.shape(), dims, mesh.rank());
      CHECK(test::on_all_ranks(ranks_of(group) == expected));
      std::reverse(dims.begin(), dims.end());
      CHECK(mesh.along(dims) == group);  // a set has no order, and is made once
      MPI_Errhandler handler;
      MPI_Comm_get_errhandler(group, &handler);
      CHECK(handler == MPI_ERRORS_RETURN);
      CHECK_FALSE(mesh.crosses_nodes(dims));  // the tests run on one node
    }
    CHECK(mesh.dims_across_nodes().empty());
    CHECK(mesh.nodes() == std::vector<int>(static_cast<std::size_t>(mesh.shape().size()), 0));
  }
}

TEST_CASE("all communicators of a mesh are freed with it") {
  const int before = test::live_communicators();
  {
    ProcessorMesh mesh(MeshShape::parse(meshes().back(), test::world().size()), mpi_world());
    for (const auto& dims : test::subsets(mesh.shape().rank())) mesh.along(dims);
    CHECK(test::live_communicators() > before + 2);
  }
  CHECK(test::live_communicators() == before);
}

TEST_CASE("ranks of a node stand together, whatever order the launcher gave them") {
  // As if the launcher had dealt the ranks out to two nodes in turn.
  const int size = test::world().size(), rank = test::world().rank();
  std::vector<int> nodes;
  for (int r = 0; r < size; ++r) nodes.push_back(r % 2);
  const MpiWorld dealt(mpi_world().communicator(), mpi_world().waiter(), nodes);
  ProcessorMesh mesh(MeshShape::parse(size == 4 ? "a:2,b:2" : "a:*", size), dealt);
  std::vector<int> sorted = nodes;
  std::sort(sorted.begin(), sorted.end());
  CHECK(mesh.nodes() == sorted);
  CHECK(mesh.rank() == (rank % 2 == 0 ? rank / 2 : (size + 1) / 2 + rank / 2));
  CHECK(mesh.crosses_nodes({0}) == (size > 1));
  if (size == 4) {
    CHECK_FALSE(mesh.crosses_nodes({1}));
    CHECK(mesh.crosses_nodes({0, 1}));
    CHECK(mesh.dims_across_nodes() == std::vector<std::string>{"a"});
  }
}

TEST_CASE("errors of MPI come back as exceptions with its words") {
  ProcessorMesh mesh(MeshShape::parse(meshes().back(), test::world().size()), mpi_world());
  try {
    int value = 0;
    TESSERA_MPI(MPI_Bcast, &value, 1, MPI_INT, 99, mesh.cartesian());
    FAIL_CHECK("a root of 99 was accepted");
  } catch (const Error& error) {
    CHECK(std::string(error.what()).find("MPI_Bcast failed: ") == 0);
    CHECK(std::string(error.what()).find("99") != std::string::npos);
  }
  CHECK_THROWS_AS(ProcessorMesh(MeshShape::parse("a:77", 0), mpi_world()), Error);
  CHECK_THROWS_AS(mesh.along({17}), Error);
}

TEST_CASE("the environment knows the node") {
  const auto& environment = test::environment();
  CHECK(environment.ranks_on_node() == environment.size());
  CHECK(environment.most_ranks_on_node() == environment.size());
  CHECK(environment.nodes() == 1);
  CHECK(environment.local_rank() == environment.rank());
  CHECK_FALSE(environment.host().empty());
  CHECK(environment.library().find_first_of("0123456789") != std::string::npos);
  const auto report = environment.report_cores(100'000);
  CHECK(report.lines.size() >= 1);
  CHECK(report.warnings.size() >= 1);
}
