// SPDX-License-Identifier: BSD-3-Clause
// Flights: the same numbers as with collectives that are waited for, and what was planned is what
// runs. A simulated flight takes place when it is finished, so a step that reads its result too
// early, or writes to its operands, changes the numbers.
#include <cmath>
#include <cstring>
#include <map>

#include "support/catch.hpp"
#include "support/small_training.hpp"
#include "tessera/base/error.hpp"
#include "tessera/plan/report.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

const char* const kBoth = "batch:batch,vocab:model,d_ff:model,heads:model";

struct Case {
  const char* mesh;
  const char* rules;
  const char* shard = "";
  const char* store = "";
  /// `update` finds gradients reduced, and may sum up their norm over other mesh dims.
  bool same_bits = true;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"batch:2", "batch:batch"},
      {"batch:4", "batch:batch", "batch"},
      {"batch:3", "batch:batch", "", "batch"},
      {"batch:2,model:2", kBoth},
      {"batch:3,model:2", kBoth, "batch"},
      {"batch:2,model:2", kBoth, "model", "batch", false},
      {"batch:2,model:2,seq:2", "batch:batch,vocab:model,d_ff:model,heads:model,length:seq",
       "batch", "", false},
      {"model:4", "vocab:model,d_ff:model,heads:model"},
  };
  return all;
}

/// Small buckets, so that there are several.
plan::PlanOptions with_flights(const SmallTraining& training, const Case& c) {
  auto options = SmallTraining::options(c.mesh, c.rules, c.shard, c.store);
  options.overlap = true;
  options.reducing = training.task().last_micros();
  options.flight_bytes = 700;
  options.least_flight_bytes = 0;
  return options;
}

int count_flights(const program::Program& program) {
  int count = 0;
  for (const auto& section : program.sections)
    for (const auto& step : section.steps) count += program::started_by(step) >= 0;
  return count;
}

std::vector<double> run(const SmallTraining& training, const program::Program& program) {
  comm::SimulatedCollectives collectives(program.mesh, &shared_exec());
  runtime::Executor executor(program, collectives, shared_exec(), {true, false});
  return training.run(executor, 4);
}

/// The first number of two runs that differs, or -1; last bits aside where a case allows it.
int first_difference(const Case& c, const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    const bool same = c.same_bits ? std::memcmp(&a[i], &b[i], 8) == 0
                                  : std::abs(a[i] - b[i]) <= 1e-5 * std::abs(a[i]);
    if (!same) return static_cast<int>(i);
  }
  return -1;
}

std::string describe(const Case& c) {
  return concat(c.mesh, " under ", c.rules, " shard ", c.shard, " store ", c.store);
}

}  // namespace

TEST_CASE("flights leave every number as it is") {
  for (std::int64_t micro_batches : {1, 2, 3}) {
    const auto config = SmallTraining::config(11);
    const SmallTraining waiting(DType::f32, config, {}, micro_batches);
    const SmallTraining flying(DType::f32, config, {}, micro_batches, true);
    for (const Case& c : cases()) {
      INFO(describe(c) << ", " << micro_batches << " micro-batches");
      const auto program = flying.compile(with_flights(flying, c));
      CHECK(count_flights(program) > 0);
      const auto a = run(waiting, waiting.compile(c.mesh, c.rules, c.shard, c.store));
      const auto b = run(flying, program);
      CHECK(first_difference(c, a, b) == -1);
    }
  }
}

TEST_CASE("flights with recomputed regions and bf16 leave every number as it is") {
  for (DType dtype : {DType::f32, DType::bf16}) {
    const SmallTraining training(dtype, 11, {"*"});
    for (const Case& c : {cases()[0], cases()[2], cases()[5]}) {
      INFO(describe(c));
      const auto a = run(training, training.compile(c.mesh, c.rules, c.shard, c.store));
      const auto b = run(training, training.compile(with_flights(training, c)));
      CHECK(first_difference(c, a, b) == -1);
    }
  }
}

TEST_CASE("the ledger equals the plan with flights") {
  const SmallTraining training(DType::f32, SmallTraining::config(11), {}, 3, true);
  for (const Case& c : cases()) {
    INFO(describe(c));
    const auto program = training.compile(with_flights(training, c));
    comm::SimulatedCollectives collectives(program.mesh, &shared_exec());
    runtime::Executor executor(program, collectives, shared_exec(), {true, false});
    training.run(executor, 2);
    std::map<std::string, std::vector<std::int64_t>> planned, counted;
    const auto key = [](const program::CollectiveRow& row) {
      std::string text = row.section + " " + program::name_of(row.op);
      for (int m : row.mesh_dims) text += " " + std::to_string(m);
      return text;
    };
    for (const char* section : {"micro", "micro_next", "micro_last", "update"})
      for (const auto& row : plan::collectives_of(program, program.section(section)))
        planned[key(row)] = {2 * row.count, 2 * row.bytes, 2 * row.bytes_all_ranks};
    for (const auto& row : collectives.ledger().rows())
      counted[key(row)] = {row.count, row.bytes, row.bytes_all_ranks};
    CHECK(planned == counted);
  }
}

TEST_CASE("gradients are reduced in the last micro-batch's section, bucket by bucket, in place") {
  const SmallTraining training(DType::f32);
  const Case data_parallel{"batch:2", "batch:batch"};
  const auto program = training.compile(with_flights(training, data_parallel));
  const auto& micro = program.section("micro");
  int started = 0, under_way = 0, most = 0, kernels_meanwhile = 0;
  for (const auto& step : micro.steps) {
    if (program::started_by(step) >= 0) {
      ++started;
      most = std::max(most, ++under_way);
      const auto& reduce = std::get<program::AllReduceStep>(step);
      CHECK(reduce.contiguous);  // no packing
      std::int64_t bytes = 0;
      for (program::BufferId id : reduce.buffers)
        bytes += micro.buffers[static_cast<std::size_t>(id)].bytes;
      CHECK((bytes <= 700 || reduce.buffers.size() == 1));
    }
    under_way -= std::holds_alternative<program::FinishStep>(step);
    kernels_meanwhile += under_way > 0 && std::holds_alternative<program::KernelStep>(step);
  }
  CHECK(under_way == 0);
  CHECK(started >= 4);
  CHECK(most > 1);
  CHECK(most <= 4);
  CHECK(kernels_meanwhile > 10);
  for (const auto& step : program.section("update").steps)
    CHECK_FALSE(std::holds_alternative<program::AllReduceStep>(step));
  const auto report = plan::report(program, {{"micro", 1}, {"update", 1}});
  CHECK(report.flights >= started);
  CHECK(report.bytes_in_flight > 0);
}

TEST_CASE("memory that a flight holds is nobody else's") {
  const SmallTraining training(DType::f32);
  for (const Case& c : cases()) {
    INFO(describe(c));
    const auto program = training.compile(with_flights(training, c));
    for (const auto& section : program.sections) {
      std::map<int, int> started;
      for (int i = 0; i < static_cast<int>(section.steps.size()); ++i) {
        const auto& step = section.steps[static_cast<std::size_t>(i)];
        if (program::started_by(step) >= 0) started[program::started_by(step)] = i;
        const auto* finish = std::get_if<program::FinishStep>(&step);
        if (!finish) continue;
        for (program::BufferId id : finish->reads) {
          const auto& buffer = section.buffers[static_cast<std::size_t>(id)];
          CHECK((buffer.variable >= 0 ||
                 (buffer.first_step <= started.at(finish->flight) && buffer.last_step >= i)));
        }
      }
    }
  }
}
