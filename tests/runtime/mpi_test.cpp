// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cmath>
#include <cstring>

#include "support/apart.hpp"
#include "support/catch.hpp"
#include "support/pmpi_counter.hpp"
#include "support/small_training.hpp"
#include "support/world.hpp"
#include "tessera/comm/mpi_collectives.hpp"
#include "tessera/plan/report.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

constexpr int kSteps = 20;
const char* const kBoth = "batch:batch,vocab:model,d_ff:model,heads:model";

struct Case {
  const char* mesh;
  const char* rules;
  const char* shard;
  const char* store = "";
  bool overlap = false;

  program::Program compile(const SmallTraining& training) const {
    auto options = SmallTraining::options(mesh, rules, shard, store);
    options.overlap = overlap;
    options.reducing = training.task().last_micros();
    options.flight_bytes = 700;  // several buckets
    options.least_flight_bytes = 0;
    return training.compile(options);
  }
};

std::vector<Case> cases() {
  switch (world().size()) {
    case 1:
      return {{"batch:1", "batch:batch", ""}};
    case 2:
      return {{"batch:2", "batch:batch", ""},
              {"batch:2", "batch:batch", "batch"},
              {"batch:2", "batch:batch", "", "batch"},
              {"batch:2", "batch:batch", "", "", true},
              {"batch:2", "batch:batch", "batch", "", true},
              {"batch:2", "batch:batch", "", "batch", true},
              {"model:2", "vocab:model,d_ff:model,heads:model", ""},
              {"seq:2", "length:seq", ""}};
    default:
      return {{"batch:2,model:2", kBoth, ""},
              {"batch:2,model:2", kBoth, "batch"},
              {"batch:2,model:2", kBoth, "model", "batch", true}};
  }
}

/// Losses (summed over ranks) and gradient norms of a run over MPI.
std::vector<double> run_over_mpi(const SmallTraining& training, const program::Program& program,
                                 comm::MpiCollectives& collectives, int steps) {
  runtime::Executor executor(program, collectives, shared_exec());
  auto curve = training.run(executor, steps);
  for (std::size_t i = 0; i < curve.size(); i += 2)
    curve[i] = collectives.sum_over_ranks(std::vector<std::vector<double>>{{curve[i]}})[0];
  return curve;
}

std::vector<double> run_simulated(const SmallTraining& training, const program::Program& program,
                                  int steps) {
  comm::SimulatedCollectives collectives(program.mesh, &shared_exec());
  runtime::Executor executor(program, collectives, shared_exec());
  return training.run(executor, steps);
}

/// Largest difference of two runs' losses; gradient norms, which Adam's first steps make far more
/// sensitive to round-off, count a tenth of theirs.
double worst_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double worst = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    worst = test::worse(worst, std::abs(a[i] - b[i]) * (i % 2 == 0 ? 1 : 0.1));
  return worst;
}

}  // namespace

TEST_CASE("over MPI a model trains as on one rank") {
  for (const auto& [dtype, tolerance] :
       {std::pair{DType::f64, 1e-9}, std::pair{DType::f32, 1e-5}}) {
    const SmallTraining training(dtype);
    const auto alone = run_simulated(training, training.compile("", ""), kSteps);
    for (const Case& c : cases()) {
      const auto program = c.compile(training);
      comm::MpiCollectives collectives(program.mesh, world());
      const auto curve = run_over_mpi(training, program, collectives, kSteps);
      const double worst = worst_difference(curve, alone);
      INFO(c.mesh << " under " << c.rules << " shard " << c.shard << " overlap " << c.overlap
                  << ": " << worst);
      CHECK(on_all_ranks(worst < tolerance));
    }
  }
}

TEST_CASE("over MPI a vocabulary of 50,257 trains as on one rank") {
  const SmallTraining training(DType::f64, 50257);
  const auto alone = run_simulated(training, training.compile("", ""), kSteps);
  for (const Case& c : cases()) {
    const auto program = c.compile(training);
    comm::MpiCollectives collectives(program.mesh, world());
    const auto curve = run_over_mpi(training, program, collectives, kSteps);
    double worst = curve.size() == alone.size() ? 0 : 1;
    for (std::size_t i = 0; i < std::min(curve.size(), alone.size()); i += 2)
      worst = test::worse(worst, std::abs(curve[i] - alone[i]));
    INFO(c.mesh << " under " << c.rules << " shard " << c.shard << " overlap " << c.overlap << ": "
                << worst);
    CHECK(on_all_ranks(worst < 1e-9));
  }
}

TEST_CASE("over MPI keys that pass in a ring or come from neighbours train as on one rank") {
  if (world().size() == 1) return;
  auto ring = SmallTraining::config(11), window = ring;
  ring.attention = "ring";
  window.window = 3;
  for (const auto& config : {ring, window}) {
    const SmallTraining training(DType::f64, config);
    const auto alone = run_simulated(training, training.compile("", ""), kSteps);
    const auto program =
        training.compile("seq:" + std::to_string(world().size()), "length:seq", "");
    comm::MpiCollectives collectives(program.mesh, world());
    start_counting();
    const auto curve = run_over_mpi(training, program, collectives, kSteps);
    std::int64_t bytes = 0, planned = 0;
    for (const auto& [key, count] : stop_counting())
      if (key.first == "send") bytes += count.bytes;
    for (const char* section : {"micro", "update"})
      for (const auto& row : plan::collectives_of(program, program.section(section)))
        if (row.op == program::CollectiveKind::neighbour_exchange)
          planned += kSteps * row.bytes_all_ranks;
    const double worst = worst_difference(curve, alone);
    INFO("attention " << config.attention << ", window " << config.window << ": " << worst);
    CHECK(on_all_ranks(worst < 1e-9));
    CHECK(
        on_all_ranks(world().sum({static_cast<double>(bytes)})[0] == static_cast<double>(planned)));
    CHECK(planned > 0);
  }
}

TEST_CASE("over MPI a pipeline of stages trains as on one rank, with the messages of the plan") {
  if (world().size() == 1) return;
  auto config = SmallTraining::config(11);
  config.layers = config.stages = 4;
  config.tied = true;
  const auto meshes = world().size() == 2
                          ? std::vector<Case>{{"stage:2", "", ""}}
                          : std::vector<Case>{{"stage:4", "", ""},
                                              {"stage:2,batch:2", "batch:batch", "batch"},
                                              {"model:2,stage:2", "vocab:model,heads:model", ""}};
  for (const int micro_batches : {1, 3}) {
    const SmallTraining training(DType::f64, config, {}, micro_batches);
    const auto alone = run_simulated(training, training.compile("", ""), kSteps);
    for (const Case& c : meshes) {
      INFO(c.mesh << " with " << micro_batches << " micro-batches");
      const auto program = training.compile(c.mesh, c.rules, c.shard);
      comm::MpiCollectivesOptions options;
      options.reduce = comm::ReduceMode::ordered;
      comm::MpiCollectives collectives(program.mesh, world(), options);
      const auto curve = run_over_mpi(training, program, collectives, kSteps);
      CHECK(on_all_ranks(worst_difference(curve, alone) < 1e-9));
      const auto simulated = run_simulated(training, program, kSteps);
      CHECK(on_all_ranks(std::memcmp(&curve[2 * kSteps - 1], &simulated[2 * kSteps - 1], 8) == 0));
    }
    for (const Case& c : meshes) {
      INFO(c.mesh << " with " << micro_batches << " micro-batches");
      const auto program = training.compile(c.mesh, c.rules, c.shard);
      comm::MpiCollectives collectives(program.mesh, world());
      runtime::Executor executor(program, collectives, shared_exec());
      start_counting();
      training.run(executor, 2);
      const MpiCounts counts = stop_counting();
      double bytes = 0, messages = 0;
      for (const auto& [key, count] : counts) {
        bytes += static_cast<double>(count.bytes);
        if (key.first == "send") messages += static_cast<double>(count.calls);
      }
      double planned_bytes = 0, planned_messages = 0;
      std::vector<program::CollectiveRow> planned;
      for (const char* section : {"micro", "update"})
        for (auto row : plan::collectives_of(program, program.section(section))) {
          planned_bytes += 2 * static_cast<double>(row.bytes_all_ranks);
          // Each rank of a stage has a tile to send.
          if (row.op == program::CollectiveKind::neighbour_exchange)
            planned_messages += 2 * static_cast<double>(row.count * world().size()) /
                                static_cast<double>(program.mesh.group_size(row.mesh_dims));
          row.count *= 2;
          row.bytes *= 2;
          row.bytes_all_ranks *= 2;
          row.messages *= 2;
          planned.push_back(row);
        }
      CHECK(on_all_ranks(world().sum({bytes})[0] == planned_bytes));
      CHECK(on_all_ranks(world().sum({messages})[0] == planned_messages));
      CHECK(planned_messages > 0);
      const auto booked = comm::rows_over_ranks(collectives);
      bool equal = booked.size() == planned.size();
      for (const auto& row : planned)
        equal = equal && std::any_of(booked.begin(), booked.end(), [&](const auto& other) {
                  return other.section == row.section && other.op == row.op &&
                         other.mesh_dims == row.mesh_dims && other.count == row.count &&
                         other.bytes == row.bytes && other.bytes_all_ranks == row.bytes_all_ranks &&
                         other.messages == row.messages;
                });
      CHECK(on_all_ranks(equal));
    }
  }
}

TEST_CASE("ordered sums over MPI equal the simulated mesh bit for bit") {
  const SmallTraining training(DType::f32);
  for (const Case& c : cases()) {
    const auto program = c.compile(training);
    comm::MpiCollectivesOptions options;
    options.reduce = comm::ReduceMode::ordered;
    comm::MpiCollectives collectives(program.mesh, world(), options);
    const auto curve = run_over_mpi(training, program, collectives, 5);
    const auto simulated = run_simulated(training, program, 5);
    // Losses are summed over ranks by the host in another association; the norms are the program's.
    bool equal = true;
    for (std::size_t i = 1; i < curve.size(); i += 2)
      equal = equal && std::memcmp(&curve[i], &simulated[i], 8) == 0;
    INFO(c.mesh << " under " << c.rules << " shard " << c.shard << " overlap " << c.overlap);
    CHECK(on_all_ranks(equal));
  }
}

TEST_CASE("MPI is asked for exactly what the plan says") {
  const SmallTraining training(DType::f32);
  for (const Case& c : cases()) {
    const auto program = c.compile(training);
    comm::MpiCollectives collectives(program.mesh, world());
    runtime::Executor executor(program, collectives, shared_exec());
    start_counting();
    training.run(executor, 2);
    const MpiCounts counts = stop_counting();
    std::int64_t planned_calls = 0, planned_bytes = 0, calls = 0, bytes = 0;
    for (const char* section : {"micro", "update"})
      for (const auto& row : plan::collectives_of(program, program.section(section))) {
        planned_calls += 2 * row.count;
        planned_bytes += 2 * row.bytes_all_ranks;
      }
    for (const auto& [key, count] : counts) {
      calls += count.calls;
      bytes += count.bytes;
    }
    const double bytes_of_all = world().sum({static_cast<double>(bytes)})[0];
    INFO(c.mesh << " under " << c.rules << " shard " << c.shard << " overlap " << c.overlap);
    CHECK(on_all_ranks(calls == planned_calls));
    CHECK(on_all_ranks(bytes_of_all == static_cast<double>(planned_bytes)));
  }
}
