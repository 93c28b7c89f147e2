// SPDX-License-Identifier: BSD-3-Clause
#include <cmath>

#include "support/apart.hpp"
#include "support/catch.hpp"
#include "support/small_training.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

const char* const kBoth = "batch:batch,vocab:model,d_ff:model,heads:model";
const char* const kModel = "vocab:model,d_ff:model,heads:model";

struct Case {
  const char* mesh;
  const char* rules;
  const char* shard;
  const char* store = "";
};

const Case kCases[] = {
    {"batch:2", "batch:batch", ""},
    {"batch:2", "batch:batch", "batch"},
    {"batch:3", "batch:batch", ""},
    {"batch:4", "batch:batch", "batch"},
    {"batch:8", "batch:batch", ""},
    {"model:3", kModel, ""},
    {"model:8", kModel, ""},
    {"batch:2,model:2", kBoth, ""},
    {"batch:4,model:2", kBoth, "batch"},
    {"batch:3", "batch:batch", "batch"},
    {"batch:4", "batch:batch", ""},
    {"batch:8", "batch:batch", "batch"},
    {"batch:2,model:2", kBoth, "batch"},
    {"batch:4,model:2", kBoth, ""},
    {"batch:2,model:2,seq:2", "batch:batch,vocab:model,d_ff:model,heads:model,length:seq", "batch"},
    {"batch:3", "batch:batch", "", "batch"},
    {"batch:2", "batch:batch", "batch", "batch"},
    {"batch:3,model:2", kBoth, "", "batch"},
    {"batch:2,model:2", kBoth, "model", "batch"},
    {"batch:2,model:2,seq:2", "batch:batch,vocab:model,d_ff:model,heads:model,length:seq", ""},
};

std::vector<double> losses(const SmallTraining& training, const Case& c, int steps) {
  const auto program = training.compile(c.mesh, c.rules, c.shard, c.store);
  comm::SimulatedCollectives collectives(program.mesh, &shared_exec());
  runtime::Executor executor(program, collectives, shared_exec());
  const auto curve = training.run(executor, steps);
  std::vector<double> losses;
  for (std::size_t i = 0; i < curve.size(); i += 2) losses.push_back(curve[i]);
  return losses;
}

void check_alike(DType dtype, std::int64_t vocab, int steps, double tolerance) {
  const SmallTraining training(dtype, vocab);
  const auto alone = losses(training, {"", "", ""}, steps);
  CHECK(std::abs(alone[0] - std::log(static_cast<double>(vocab))) < 1);
  for (const Case& c : kCases) {
    const auto found = losses(training, c, steps);
    double worst = 0;
    for (std::size_t i = 0; i < found.size(); ++i)
      worst = test::worse(worst, std::abs(found[i] - alone[i]));
    INFO(c.mesh << " under " << c.rules << " shard " << c.shard << " store " << c.store << ": "
                << worst);
    CHECK(worst < tolerance);
  }
}

}  // namespace

TEST_CASE("the losses of 20 steps in f32 are those of one rank") {
  check_alike(DType::f32, 11, 20, 1e-5);
}

TEST_CASE("a vocabulary of 50,257 over any mesh, never padded") {
  check_alike(DType::f64, 50257, 20, 1e-9);
}
