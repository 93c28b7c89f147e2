// SPDX-License-Identifier: BSD-3-Clause
// Regions that are computed again give bitwise the numbers of those that are kept, dropout on.
#include "tessera/plan/recompute.hpp"
#include "support/catch.hpp"
#include "support/small_training.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

const char* const kBoth = "batch:batch,vocab:model,d_ff:model,heads:model";

std::vector<double> curve(const SmallTraining& training, const char* mesh, const char* rules,
                          const char* shard) {
  const auto program = training.compile(mesh, rules, shard);
  comm::SimulatedCollectives collectives(program.mesh, &shared_exec());
  runtime::Executor executor(program, collectives, shared_exec(),
                             {.poison = true, .synchronous = false});
  return training.run(executor, 3);
}

std::size_t steps_of(const SmallTraining& training) {
  return training.compile("", "", "").section("micro").steps.size();
}

}  // namespace

TEST_CASE("losses and gradient norms are those of kept values on every mesh") {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    const SmallTraining kept(dtype), all(dtype, 11, {"*"}), one(dtype, 11, {"layer_1"});
    CHECK(steps_of(kept) < steps_of(one));
    CHECK(steps_of(one) < steps_of(all));
    for (const auto& [mesh, rules, shard] :
         {std::tuple{"", "", ""}, std::tuple{"batch:2", "batch:batch", "batch"},
          std::tuple{"model:3", "vocab:model,d_ff:model,heads:model", ""},
          std::tuple{"batch:2,model:2", kBoth, ""}, std::tuple{"x:2", "d_model:x", ""},
          std::tuple{"x:2", "length:x", ""}}) {
      INFO(name_of(dtype) << " mesh '" << mesh << "' rules '" << rules << "'");
      const auto expected = curve(kept, mesh, rules, shard);
      CHECK(curve(all, mesh, rules, shard) == expected);
      CHECK(curve(one, mesh, rules, shard) == expected);
    }
  }
}

TEST_CASE("a deep model needs the less memory the more of it is computed again") {
  models::TransformerConfig config;
  config.layers = 6;
  config.d_model = 32;
  config.d_ff = 128;
  config.heads = 4;
  config.vocab = 16;
  config.max_length = 64;
  config.dropout = 0.1;
  models::Transformer model(config);
  const auto program_of = [&](std::vector<std::string> recompute) {
    const replicate::Task task(model, {}, {.batch = 8, .length = 64, .recompute = recompute});
    return plan::compile(task.variables(), task.graphs(), {});
  };
  const auto bytes_of = [&](std::vector<std::string> recompute) {
    return program_of(std::move(recompute)).section("micro").arena_bytes;
  };
  const auto kept = bytes_of({}), all = bytes_of({"*"});
  CHECK(bytes_of({"layer_2"}) < kept);
  CHECK(bytes_of({"layer_1", "layer_2"}) < bytes_of({"layer_2"}));
  CHECK(2 * all < kept);

  const replicate::Task task(model, {}, {.batch = 8, .length = 64});
  const auto program = plan::compile(task.variables(), task.graphs(), {});
  const plan::Machine machine;
  const plan::CostModel cost(machine, program.mesh, 0);
  const auto costs = plan::region_costs(*task.graphs()[0], program.section("micro"), cost);
  REQUIRE(costs.size() == 6);
  // What one region saves is what its cost says: five of the six blocks are kept at once.
  const double saved = static_cast<double>(kept - bytes_of({costs[0].region}));
  CHECK(costs[0].bytes == Approx(saved).epsilon(0.1));
  CHECK(plan::choose_regions(costs, 0).empty());
  CHECK(plan::choose_regions(costs, 1.5 * saved).size() == 2);
  CHECK(plan::choose_regions(costs, 100 * saved).size() == 6);
}
