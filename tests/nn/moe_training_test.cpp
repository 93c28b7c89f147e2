// SPDX-License-Identifier: BSD-3-Clause
// A Transformer with experts: the same curve on every mesh, and its collectives counted.
#include <cmath>

#include "support/apart.hpp"
#include "support/catch.hpp"
#include "support/small_training.hpp"
#include "tessera/plan/report.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

models::TransformerConfig with_experts(std::int64_t choices) {
  auto config = SmallTraining::config(11);
  config.moe.experts = 4;
  config.moe.choices = choices;
  config.moe.capacity = 0.6;
  config.moe.z_loss = 0.01;
  config.moe.jitter = 0.1;
  return config;
}

std::vector<double> curve_of(const SmallTraining& training, const char* mesh, const char* rules) {
  const auto program = training.compile(mesh, rules);
  comm::SimulatedCollectives collectives(program.mesh, &shared_exec());
  runtime::Executor executor(program, collectives, shared_exec());
  return training.run(executor, 4);
}

/// all_to_all calls of the section by mesh dim.
std::vector<std::int64_t> exchanges(const program::Program& program, const std::string& section) {
  std::vector<std::int64_t> calls(static_cast<std::size_t>(program.mesh.rank()));
  for (const auto& row : plan::collectives_of(program, program.section(section)))
    if (row.op == program::CollectiveKind::all_to_all)
      calls[static_cast<std::size_t>(row.mesh_dims[0])] += row.count;
  return calls;
}

}  // namespace

TEST_CASE("four steps with experts, dropout and jitter are those of one rank") {
  struct Case {
    std::int64_t choices;
    const char* mesh;
    const char* rules;
  };
  constexpr Case kCases[] = {
      {1, "batch:4", "batch:batch,experts:batch"},
      {1, "batch:2,model:2", "batch:batch,experts:model,vocab:model,heads:model"},
      {2, "batch:2", "batch:batch,experts:batch"},
      {2, "batch:4", "batch:batch,expert_batch:batch"},
      {2, "batch:2,model:2", "batch:batch,experts:batch,vocab:model,d_ff:model,heads:model"}};
  for (const std::int64_t choices : {1, 2}) {
    const SmallTraining training(DType::f64, with_experts(choices));
    const auto alone = curve_of(training, "", "");
    for (const Case& c : kCases) {
      if (c.choices != choices) continue;
      const auto found = curve_of(training, c.mesh, c.rules);
      double worst = 0;
      for (std::size_t i = 0; i < found.size(); ++i)
        worst = test::worse(worst, std::abs(found[i] - alone[i]));
      INFO(choices << " of 4 experts on " << c.mesh << " under " << c.rules << ": " << worst);
      CHECK(worst < 1e-9);
    }
  }
}

TEST_CASE("experts with micro-batches, computed again and with state and weights split") {
  const auto config = with_experts(2);
  const SmallTraining training(DType::f64, config, {}, 2), again(DType::f64, config, {"*"}, 2);
  const auto alone = curve_of(training, "", "");
  const char* const rules = "batch:batch,experts:batch,vocab:model,d_ff:model,heads:model";
  for (const SmallTraining* of : {&training, &again})
    for (const auto& [shard, store] :
         {std::pair{"", ""}, {"batch", ""}, {"", "batch"}, {"model", "batch"}}) {
      const auto program = of->compile("batch:2,model:2", rules, shard, store);
      comm::SimulatedCollectives collectives(program.mesh, &shared_exec());
      runtime::Executor executor(program, collectives, shared_exec());
      const auto found = of->run(executor, 4);
      double worst = 0;
      for (std::size_t i = 0; i < found.size(); ++i)
        worst = std::max(worst, std::abs(found[i] - alone[i]));
      INFO("shard '" << shard << "', store '" << store << "': " << worst);
      CHECK(worst < 1e-9);
    }
}

TEST_CASE("the second expert takes tokens by chance, the same on every mesh") {
  auto config = with_experts(2);
  config.moe.capacity = 4;
  const auto always = curve_of(SmallTraining(DType::f64, config), "", "");
  config.moe.second_threshold = 1e-6;  // below every share: each draw falls under it
  CHECK(curve_of(SmallTraining(DType::f64, config), "", "") == always);
  config.moe.second_threshold = 1;
  const SmallTraining training(DType::f64, config);
  const auto alone = curve_of(training, "", "");
  CHECK(std::abs(alone[0] - always[0]) > 1e-6);
  const auto found = curve_of(training, "batch:2,model:2", "batch:batch,experts:batch,heads:model");
  for (std::size_t i = 0; i < found.size(); ++i) CHECK(std::abs(found[i] - alone[i]) < 1e-9);
}

TEST_CASE("two all_to_alls for each layer of experts and direction, and no other of its tensors") {
  const auto config = with_experts(2);
  const SmallTraining training(DType::f32, config);
  const auto program = training.compile("batch:2", "batch:batch,experts:batch");
  CHECK(exchanges(program, "micro") == std::vector<std::int64_t>{4 * config.layers});
  CHECK(exchanges(program, "eval") == std::vector<std::int64_t>{2 * config.layers});
  const std::int64_t places = config.moe.places(SmallTraining::kLength, true);
  for (const auto& row : plan::collectives_of(program, program.section("micro"))) {
    if (row.op == program::CollectiveKind::all_to_all)
      CHECK(row.bytes == 4 * config.layers * 4 * config.moe.experts * SmallTraining::kBatch / 2 *
                             places * config.d_model);
    else  // sums of the gates' statistics, over all rows
      CHECK(row.bytes < 4 * 4 * config.layers * config.moe.experts * 4);
  }
}

TEST_CASE("experts in a grid are reached by one all_to_all along each mesh dim") {
  auto config = with_experts(1);
  config.moe.outer = 2;
  config.moe.group = 1;
  const SmallTraining training(DType::f32, config);
  const auto program =
      training.compile("rows:2,cols:2", "batch:rows,groups:cols,experts_outer:rows,experts:cols");
  CHECK(exchanges(program, "micro") ==
        std::vector<std::int64_t>{4 * config.layers, 4 * config.layers});
}
