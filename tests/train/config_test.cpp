// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/config.hpp"

#include "support/catch.hpp"
#include "tessera/base/error.hpp"

using namespace tessera;
using namespace tessera::train;

TEST_CASE("Durations are written as people and Slurm write them") {
  CHECK(parse_duration("k", "90") == 90);
  CHECK(parse_duration("k", "90s") == 90);
  CHECK(parse_duration("k", "1.5m") == 90);
  CHECK(parse_duration("k", "2h") == 7200);
  CHECK(parse_duration("k", "1d") == 86400);
  CHECK(parse_duration("k", "02:03") == 123);
  CHECK(parse_duration("k", "1:02:03") == 3723);
  CHECK(parse_duration("k", "2-01:00:00") == 2 * 86400 + 3600);
  for (const char* bad : {"", "soon", "5 weeks", "1:2:3:4", "1:x", "-5", "3-4", "5mm"})
    CHECK_THROWS_AS(parse_duration("run.walltime", bad), UserError);
}

TEST_CASE("Amounts of memory have decimal or binary units") {
  CHECK(parse_bytes("k", "4096") == 4096);
  CHECK(parse_bytes("k", "512MB") == 512e6);
  CHECK(parse_bytes("k", "1.5 GiB") == 1.5 * (1 << 30));
  CHECK(parse_bytes("k", "2TiB") == 2.0 * 1024 * (1 << 30));
  for (const char* bad : {"", "much", "5 apples", "-1GB", "1Gb"})
    CHECK_THROWS_AS(parse_bytes("plan.memory_limit", bad), UserError);
}

TEST_CASE("How a run goes may change when it is resumed, what it trains may not") {
  RunConfig run;
  MeshConfig mesh;
  TrainConfig train;
  EvalConfig eval;
  CheckpointConfig checkpoint;
  config::Schema schema;
  run.describe(schema);
  mesh.describe(schema);
  train.describe(schema);
  eval.describe(schema);
  checkpoint.describe(schema);
  for (const auto& key : schema.keys()) {
    const bool is_identity = key.name == "run.seed" || key.name == "train.dtype";
    INFO(key.name);
    CHECK((key.role == config::Role::identity) == is_identity);
  }
}
