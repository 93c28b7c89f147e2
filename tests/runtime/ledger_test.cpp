// SPDX-License-Identifier: BSD-3-Clause
#include "support/catch.hpp"
#include "support/small_training.hpp"
#include "tessera/base/error.hpp"
#include "tessera/plan/report.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

/// What ran is what was planned: calls, bytes of the largest rank, bytes of all ranks.
void check_ledger(const std::string& mesh, const std::string& rules, const std::string& shard,
                  const std::string& store = "",
                  const models::TransformerConfig& config = SmallTraining::config(11),
                  DType dtype = DType::f32) {
  INFO(mesh << " under " << rules << " shard " << shard << ", attention " << config.attention
            << ", window " << config.window);
  const SmallTraining training(dtype, config);
  const auto program = training.compile(mesh, rules, shard, store);
  comm::SimulatedCollectives collectives(program.mesh, &shared_exec());
  runtime::Executor executor(program, collectives, shared_exec(), {true, false});
  constexpr int kSteps = 3;
  training.run(executor, kSteps);
  std::vector<program::CollectiveRow> planned;
  for (const char* section : {"micro", "update"})
    for (auto row : plan::collectives_of(program, program.section(section))) {
      row.count *= kSteps;
      row.bytes *= kSteps;
      row.bytes_all_ranks *= kSteps;
      planned.push_back(row);
    }
  const auto counted = collectives.ledger().rows();
  REQUIRE(counted.size() == planned.size());
  for (const auto& row : planned) {
    INFO(row.section << " " << program::name_of(row.op) << " over " << row.mesh_dims.size()
                     << " mesh dims");
    bool found = false;
    for (const auto& other : counted) {
      if (other.section != row.section || other.op != row.op || other.mesh_dims != row.mesh_dims)
        continue;
      found = true;
      CHECK(other.count == row.count);
      CHECK(other.bytes == row.bytes);
      CHECK(other.bytes_all_ranks == row.bytes_all_ranks);
      if (row.op == program::CollectiveKind::neighbour_exchange)
        CHECK(other.messages == kSteps * row.messages);
    }
    CHECK(found);
  }
}

const char* const kBoth = "batch:batch,vocab:model,d_ff:model,heads:model";

}  // namespace

TEST_CASE("the ledger equals the plan") {
  check_ledger("batch:2", "batch:batch", "");
  check_ledger("batch:4", "batch:batch", "batch");
  check_ledger("model:4", "vocab:model,d_ff:model,heads:model", "");
  check_ledger("model:3", "d_model:model", "");
  check_ledger("batch:2,model:2", kBoth, "");
  check_ledger("batch:3,model:2", kBoth, "batch");
  check_ledger("batch:3", "batch:batch", "", "batch");
  check_ledger("batch:2,model:2", kBoth, "model", "batch");
  check_ledger("batch:2,model:2,seq:2", concat(kBoth, ",length:seq"), "batch");
}

TEST_CASE("the ledger equals the plan where keys pass in a ring or come from neighbours") {
  auto ring = SmallTraining::config(11), window = ring;
  ring.attention = "ring";
  window.window = 3;
  for (const char* mesh : {"seq:2", "seq:3", "seq:4", "seq:8"}) {  // 8: more ranks than positions
    check_ledger(mesh, "length:seq", "", "", ring);
    check_ledger(mesh, "length:seq", "", "", ring, DType::bf16);
    check_ledger(mesh, "length:seq", "", "", window);
  }
  check_ledger("batch:2,seq:3", "batch:batch,length:seq", "", "", ring);
}

TEST_CASE("one rank communicates nothing") {
  const SmallTraining training(DType::f32);
  const auto program = training.compile("batch:1,model:1", kBoth);
  for (const auto& section : program.sections)
    CHECK(plan::collectives_of(program, section).empty());
}
