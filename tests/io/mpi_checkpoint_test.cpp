// SPDX-License-Identifier: BSD-3-Clause
#include "io/checkpoint_support.hpp"
#include "support/catch.hpp"
#include "support/world.hpp"
#include "tessera/comm/mpi_collectives.hpp"
#include "tessera/comm/simulated_collectives.hpp"
#include "tessera/io/checkpoint.hpp"
#include "tessera/io/trace.hpp"

using namespace tessera;
using test::contains;
using test::on_all_ranks;

namespace {

std::vector<std::string> meshes() {
  switch (test::world().size()) {
    case 1:
      return {"", "a:1"};
    case 2:
      return {"a:2", "a:1,b:2"};
    default:
      return {"a:4", "a:2,b:2"};
  }
}

/// Rank 0's folder, on all ranks.
class SharedFolder {
 public:
  SharedFolder() : path_(test::world().broadcast_text(own_.path())) {}
  ~SharedFolder() { test::world().barrier(); }
  const std::string& path() const { return path_; }

 private:
  test::Scratch own_;
  std::string path_;
};

std::string file_of_one_rank(std::int64_t step) {
  const test::Scratch folder;
  comm::SimulatedCollectives one(MeshShape::parse("a:3", 0));
  test::TestTiles tiles(test::test_tensors(one.mesh()), one, step);
  return test::file_bytes(io::save_checkpoint(folder.path(), tiles.content(), one, 0));
}

std::string thrown_by(const std::function<void()>& action) {
  return test::message_of<Error>(action);
}

}  // namespace

TEST_CASE("ranks save the file that a simulated mesh saves, and load it on any of their meshes") {
  const std::string expected = file_of_one_rank(9);
  for (const std::string& from : meshes()) {
    const SharedFolder folder;
    comm::MpiCollectives writers(MeshShape::parse(from, test::world().size()), test::world());
    test::TestTiles tiles(test::test_tensors(writers.mesh()), writers, 9);
    const std::string file = io::save_checkpoint(folder.path(), tiles.content(), writers, 3);
    const bool same_file = test::file_bytes(file) == expected;
    CHECK(on_all_ranks(same_file));
    for (const std::string& to : meshes()) {
      comm::MpiCollectives readers(MeshShape::parse(to, test::world().size()), test::world());
      test::LoadTarget target(test::test_tensors(readers.mesh()), readers);
      io::load_checkpoint(io::Checkpoint(file), target.wanted(), readers);
      CHECK(on_all_ranks(target.differences(9).empty()));
      CHECK(readers.ledger().rows().empty());  // restoring is no part of a plan
    }
  }
}

TEST_CASE("a rank that fails is everybody's failure, and the older checkpoint stays") {
  const SharedFolder folder;
  comm::MpiCollectives ranks(MeshShape::parse(meshes()[0], test::world().size()), test::world());
  test::TestTiles tiles(test::test_tensors(ranks.mesh()), ranks, 1);
  io::save_checkpoint(folder.path(), tiles.content(), ranks, 1);
  const int last = test::world().size() - 1;
  io::CheckpointContent content = tiles.content();
  content.step = 2;
  int calls = 0;
  // Fails when its digest is taken, then (the second time) while its tile is written.
  for (int failing_call : {1, 2}) {
    calls = 0;
    content.tensors[0].tile = [&](int r) -> const void* {
      check_user(++calls != failing_call || ranks.local_ranks()[0] != last, "no tile here");
      return tiles.tile(0, r).data();
    };
    const std::string message =
        thrown_by([&] { io::save_checkpoint(folder.path(), content, ranks, 1); });
    CHECK(on_all_ranks(message == "no tile here"));
    test::world().barrier();
    CHECK(on_all_ranks(io::find_checkpoints(folder.path()) ==
                       std::vector<std::string>{folder.path() + "/step_00000001.h5"}));
    CHECK(on_all_ranks(!std::filesystem::exists(folder.path() + "/step_00000002.h5.part")));
  }
}

TEST_CASE("replicas that differ are named on all ranks") {
  if (test::world().size() == 1) return;
  const SharedFolder folder;
  comm::MpiCollectives ranks(MeshShape::parse(meshes()[0], test::world().size()), test::world());
  test::TestTiles tiles(test::test_tensors(ranks.mesh()), ranks, 1);
  if (ranks.local_ranks()[0] == 1) tiles.tile(4, 0)[0] ^= 1;
  const std::string message =
      thrown_by([&] { io::save_checkpoint(folder.path(), tiles.content(), ranks, 1); });
  CHECK(on_all_ranks(contains(message, "/variables/scale") &&
                     contains(message, "ranks 1 (rank 1 from rank 0)")));
}

TEST_CASE("all ranks skip a broken checkpoint together") {
  const SharedFolder folder;
  comm::MpiCollectives ranks(MeshShape::parse(meshes()[0], test::world().size()), test::world());
  for (int step : {1, 2}) {
    test::TestTiles tiles(test::test_tensors(ranks.mesh()), ranks, step);
    io::save_checkpoint(folder.path(), tiles.content(), ranks, 0);
  }
  if (test::world().rank() == 0) {
    const std::string newest = folder.path() + "/step_00000002.h5";
    const io::Checkpoint checkpoint(newest);
    std::string bytes = test::file_bytes(newest);
    // In the last rank's tile, so that only one rank reads the damage.
    bytes[static_cast<std::size_t>(checkpoint.find("/variables/embedding")->offset) + 11 * 6 * 4 -
          1] ^= 1;
    test::write_bytes(newest, bytes);
  }
  test::world().barrier();
  test::LoadTarget target(test::test_tensors(ranks.mesh()), ranks);
  std::vector<std::string> warnings;
  const auto restored =
      io::restore_newest(folder.path(), {}, target.wanted(), ranks,
                         [&](const std::string& text) { warnings.push_back(text); });
  CHECK(on_all_ranks(restored && restored->step() == 1));
  CHECK(on_all_ranks(target.differences(1).empty()));
  CHECK(on_all_ranks(warnings.size() == (test::world().rank() == 0 ? 1U : 0U)));
}

TEST_CASE("all ranks look at the checkpoints that rank 0 sees") {
  const SharedFolder folder;
  comm::MpiCollectives all(MeshShape::parse(meshes()[0], test::world().size()), test::world());
  test::TestTiles tiles(test::test_tensors(all.mesh()), all, 3);
  const std::string file = io::save_checkpoint(folder.path(), tiles.content(), all, 3);
  // To the others the folder looks empty.
  const std::string seen = test::world().rank() == 0 ? folder.path() : folder.path() + "/none";
  CHECK(on_all_ranks(io::find_checkpoints(seen, all) == std::vector<std::string>{file}));
  CHECK(on_all_ranks(io::find_checkpoints(folder.path() + "/none", all).empty()));
}

TEST_CASE("a trace holds every rank's steps and collectives") {
  const SharedFolder folder;
  comm::MpiCollectives ranks(MeshShape::parse(meshes()[0], test::world().size()), test::world());
  const std::string file = folder.path() + "/trace.json";
  io::TraceRecorder trace(file, ranks);
  program::KernelStep kernel;
  kernel.label = "block/\"in\"";
  kernel.kernel = "einsum";
  program::AllReduceStep reduce;
  reduce.label = "gradients";
  for (const program::Step& step : {program::Step(kernel), program::Step(reduce)}) {
    trace.begin("micro", step);
    trace.end("micro", step);
  }
  reduce.label = "flying";
  reduce.flight = 2;
  trace.begin("micro", reduce);
  trace.end("micro", reduce);
  trace.landed("micro", reduce);
  trace.begin("micro", program::finish_of(reduce));
  trace.end("micro", program::finish_of(reduce));
  trace.begin_phase();
  trace.end_phase("checkpoint");
  trace.finish();
  const std::string text = test::file_bytes(file);
  const auto times = [&](const std::string& piece) {
    int count = 0;
    for (auto at = text.find(piece); at != text.npos; at = text.find(piece, at + 1)) ++count;
    return count;
  };
  const int n = test::world().size();
  CHECK(on_all_ranks(times("block/\\\"in\\\"") == n && times("\"name\": \"gradients\"") == n));
  CHECK(on_all_ranks(times("\"name\": \"checkpoint\"") == n && times("thread_name") == n));
  CHECK(on_all_ranks(times("\"ph\": \"X\"") == 5 * n));
  // A flight is a row of its own from its start to its landing.
  CHECK(on_all_ranks(times("\"ph\": \"b\"") == n && times("\"ph\": \"e\"") == n));
  CHECK(on_all_ranks(times("all_reduce under way") == 2 * n && times("\"id\": \"0.2\"") == 2));
  CHECK(on_all_ranks(times(".part") == 0 &&
                     std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1));
}
