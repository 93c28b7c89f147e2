// SPDX-License-Identifier: BSD-3-Clause
#include "exchange_check.hpp"
#include "support/catch.hpp"
#include "support/pmpi_counter.hpp"
#include "support/world.hpp"
#include "tessera/comm/mpi_collectives.hpp"
#include "tessera/plan/report.hpp"

using namespace tessera;
using namespace tessera::test;

TEST_CASE("windows over MPI: what plain loops say, with the planned messages") {
  const int ranks = world().size();
  std::vector<std::string> meshes{"p:" + std::to_string(ranks)};
  if (ranks == 4) meshes.push_back("p:2,q:2");
  for (const auto& text : meshes) {
    const MeshShape mesh = MeshShape::parse(text, ranks);
    comm::MpiCollectives collectives(mesh, world());
    for (unsigned seed = 0; seed < 40; ++seed) {
      const auto program = random_exchange(mesh, seed);
      start_counting();
      const auto failures = check_exchange(program, collectives);
      const MpiCounts counts = stop_counting();
      INFO(text << " seed " << seed << " " << (failures.empty() ? "" : failures[0]));
      CHECK(on_all_ranks(failures.empty()));
      std::int64_t messages = 0, bytes = 0, planned_messages = 0, planned_bytes = 0;
      for (const auto& [key, count] : counts) {
        messages += count.calls;
        bytes += count.bytes;
      }
      const auto rows = plan::collectives_of(program, program.sections[0]);
      for (const auto& row : rows) {
        planned_messages += row.messages;
        planned_bytes += row.bytes_all_ranks;
      }
      CHECK(world().sum({static_cast<double>(bytes)})[0] == static_cast<double>(planned_bytes));
      // Of several rows the ranks with most messages may be different ones.
      const auto most = static_cast<std::int64_t>(world().max({static_cast<double>(messages)})[0]);
      CHECK((rows.size() > 1 ? most <= planned_messages : most == planned_messages));
    }
  }
}
