// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/io/checkpoint.hpp"

#include <algorithm>

#include "io/checkpoint_support.hpp"
#include "support/catch.hpp"
#include "tessera/base/error.hpp"
#include "tessera/comm/simulated_collectives.hpp"
#include "tessera/io/inspect.hpp"

using namespace tessera;
using comm::SimulatedCollectives;
using test::contains;
using test::LoadTarget;
using test::message_of;
using test::TestTiles;

namespace {

const char* const kMeshes[] = {"", "a:1", "a:2", "a:3", "a:4", "a:2,b:2", "a:8", "a:2,b:2,c:2"};

std::string save(const std::string& folder, const std::string& mesh, std::int64_t step,
                 int keep = 0) {
  SimulatedCollectives collectives(MeshShape::parse(mesh, 0));
  TestTiles tiles(test::test_tensors(collectives.mesh()), collectives, step);
  return io::save_checkpoint(folder, tiles.content(), collectives, keep);
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

TEST_CASE("what any mesh saves, any mesh loads, bit for bit") {
  const test::Scratch folder;
  std::string first_file;
  for (const char* from : kMeshes) {
    const std::string file = save(folder.path(), from, 42);
    CHECK(file == folder.path("step_00000042.h5"));
    // The same file from every mesh, digests included.
    if (first_file.empty()) first_file = test::file_bytes(file);
    const bool same_file = test::file_bytes(file) == first_file;
    CHECK(same_file);
    for (const char* to : kMeshes) {
      SimulatedCollectives collectives(MeshShape::parse(to, 0));
      LoadTarget target(test::test_tensors(collectives.mesh()), collectives);
      const io::Checkpoint checkpoint(file);
      io::load_checkpoint(checkpoint, target.wanted(), collectives);
      INFO("from " << from << " to " << to);
      CHECK(target.differences(42).empty());
      CHECK_FALSE(target.differences(41).empty());  // the comparison sees a difference
    }
  }
}

TEST_CASE("attributes and specs come back") {
  const test::Scratch folder;
  const io::Checkpoint checkpoint(save(folder.path(), "a:2,b:2", 7));
  CHECK(checkpoint.step() == 7);
  CHECK(checkpoint.attributes("/meta").text("deck") == "[run]\nseed = 7\n");
  CHECK(checkpoint.attributes("/data").integer("position") == 123456789012);
  CHECK(checkpoint.attributes("/data").real("rate") == 0.1);
  CHECK(checkpoint.attributes("/data").integers("counts") == std::vector<std::int64_t>{3, -1, 4});
  for (const auto& tensor : test::test_tensors(MeshShape())) {
    REQUIRE(checkpoint.find(tensor.path) != nullptr);
    CHECK(checkpoint.find(tensor.path)->spec == tensor.spec);
  }
  CHECK(checkpoint.find("/variables/nothing") == nullptr);
}

TEST_CASE("only the newest stay, and the best apart") {
  const test::Scratch folder;
  const std::string best = save(folder.path(), "a:2", 1, 2);
  io::keep_as_best(best);
  for (int step : {2, 3, 4}) save(folder.path(), "a:2", step, 2);
  CHECK(names_in(folder.path()) ==
        std::vector<std::string>{"best.h5", "latest", "step_00000003.h5", "step_00000004.h5"});
  CHECK(io::Checkpoint(folder.path("latest")).step() == 4);
  CHECK(io::Checkpoint(folder.path("best.h5")).step() == 1);
  CHECK(io::find_checkpoints(folder.path()) ==
        std::vector<std::string>{folder.path("step_00000004.h5"), folder.path("step_00000003.h5")});
  io::keep_as_best(folder.path("step_00000003.h5"));
  CHECK(io::Checkpoint(folder.path("best.h5")).step() == 3);
  // A run that went back to step 3 and reached 3 again has given up the later ones.
  save(folder.path(), "a:2", 3, 2);
  CHECK(names_in(folder.path()) ==
        std::vector<std::string>{"best.h5", "latest", "step_00000003.h5"});
  CHECK(io::find_checkpoints(folder.path("none")).empty());
}

TEST_CASE("a checkpoint that doesn't fit the model is refused with both sides named") {
  const test::Scratch folder;
  const io::Checkpoint checkpoint(save(folder.path(), "a:2", 1));
  SimulatedCollectives collectives(MeshShape::parse("a:3", 0));
  LoadTarget target(test::test_tensors(collectives.mesh()), collectives);
  auto& wanted = target.all_wanted();
  const auto refusal = [&](bool allow_extra = false) {
    return message_of(
        [&] { io::load_checkpoint(checkpoint, wanted, collectives, allow_extra ? "/" : ""); });
  };
  wanted[0].spec.shape = Shape{{"vocab", 12}, {"d_model", 6}};
  CHECK(contains(refusal(), "/variables/embedding is [vocab:11, d_model:6] f32"));
  CHECK(contains(refusal(), "[vocab:12, d_model:6] f32"));
  wanted[0].spec = {Shape{{"vocab", 11}, {"d_model", 6}}, DType::f64};
  CHECK(contains(refusal(), "f64"));
  wanted[0].path = "/variables/embeding";
  CHECK(contains(refusal(), "did you mean '/variables/embedding'"));
  wanted.erase(wanted.begin());
  CHECK(contains(refusal(), "holds /variables/embedding, which this model lacks"));
  CHECK(refusal(true).empty());
}

TEST_CASE("replicas that differ stop the save and are named") {
  const test::Scratch folder;
  SimulatedCollectives collectives(MeshShape::parse("a:2,b:2", 0));
  TestTiles tiles(test::test_tensors(collectives.mesh()), collectives, 1);
  // Split over b, so ranks 1 and 3 hold the same tile; the scalar is on all four.
  tiles.tile(1, 3)[5] ^= 1;
  const std::string message = message_of<Error>(
      [&] { io::save_checkpoint(folder.path(), tiles.content(), collectives, 0); });
  CHECK(contains(message, "/variables/block/in"));
  CHECK(contains(message, "ranks 3 (rank 3 from rank 1)"));
  CHECK(names_in(folder.path()).empty());
  tiles.tile(1, 1)[5] ^= 1;  // now both are equal again
  io::save_checkpoint(folder.path(), tiles.content(), collectives, 0);
  tiles.tile(4, 0)[0] ^= 4;  // the owner itself: all others differ from it
  CHECK(contains(message_of<Error>(
                     [&] { io::save_checkpoint(folder.path(), tiles.content(), collectives, 0); }),
                 "ranks 1-3"));
  CHECK(io::inspect_checkpoint(folder.path("step_00000001.h5"), false).whole);
}

TEST_CASE("the newest whole checkpoint is restored, broken ones are skipped with a warning") {
  const test::Scratch folder;
  SimulatedCollectives collectives(MeshShape::parse("a:3", 0));
  LoadTarget target(test::test_tensors(collectives.mesh()), collectives);
  std::vector<std::string> warnings;
  const auto restore = [&](const std::function<void(const io::Checkpoint&)>& accept = {}) {
    warnings.clear();
    return io::restore_newest(folder.path(), accept, target.wanted(), collectives,
                              [&](const std::string& text) { warnings.push_back(text); });
  };
  CHECK_FALSE(restore().has_value());
  for (int step : {1, 2, 3, 4}) save(folder.path(), "a:2,b:2", step);
  CHECK(restore()->step() == 4);
  CHECK(warnings.empty());

  const std::string newest = folder.path("step_00000004.h5");
  std::string bytes = test::file_bytes(newest);
  test::write_bytes(newest, bytes.substr(0, bytes.size() / 2));
  const io::Checkpoint third(folder.path("step_00000003.h5"));
  bytes = test::file_bytes(third.file());
  bytes[static_cast<std::size_t>(third.find("/variables/block/in")->offset) + 77] ^= 16;
  test::write_bytes(third.file(), bytes);
  const auto restored = restore();
  REQUIRE(restored.has_value());
  CHECK(restored->step() == 2);
  CHECK(target.differences(2).empty());
  REQUIRE(warnings.size() == 2);
  CHECK(contains(warnings[0], newest));
  CHECK(contains(warnings[0], "truncated"));
  CHECK(contains(warnings[1], third.file()));
  CHECK(contains(warnings[1], "/variables/block/in"));

  // A deck that must not resume from it ends the search instead of trying older ones.
  CHECK(message_of([&] {
          restore([](const io::Checkpoint& c) { check_user(c.step() != 3, "another deck"); });
        }) == "another deck");
  for (int step : {1, 2}) test::write_bytes(folder.path(concat("step_0000000", step, ".h5")), "");
  const std::string none = message_of([&] { restore(); });
  CHECK(contains(none, "no checkpoint in " + folder.path() + " is whole"));
  CHECK(contains(none, "step_00000001.h5"));
}

TEST_CASE("inspect lists everything and names what is damaged") {
  const test::Scratch folder;
  const std::string file = save(folder.path(), "a:2", 12);
  const io::Inspection whole = io::inspect_checkpoint(file, false);
  CHECK(whole.whole);
  for (const char* piece :
       {"step 12", "seed = 7", "position = 123456789012", "counts = 3, -1, 4",
        "/variables/embedding", "[vocab:11, d_model:6] f32", "bf16", "all digests are right"}) {
    INFO(piece);
    CHECK(contains(whole.text, piece));
  }
  std::string bytes = test::file_bytes(file);
  const io::Checkpoint checkpoint(file);
  bytes[static_cast<std::size_t>(checkpoint.find("/optimizer/v/cube")->offset)] ^= 1;
  test::write_bytes(file, bytes);
  for (bool json : {false, true}) {
    const io::Inspection damaged = io::inspect_checkpoint(folder.path(), json);
    CHECK_FALSE(damaged.whole);
    CHECK(contains(damaged.text, "/optimizer/v/cube"));
    CHECK(contains(damaged.text, json ? "\"whole\": false" : "1 tensors are damaged"));
  }
  std::filesystem::remove(file);
  CHECK(contains(message_of([&] { io::inspect_checkpoint(folder.path(), false); }),
                 "holds no checkpoint"));
}
