// SPDX-License-Identifier: BSD-3-Clause
// train.recompute = auto: what does not fit plan.memory_limit is made to fit, at the least time,
// and no number changes.
#include <limits>

#include "tessera/plan/cost_model.hpp"
#include "tessera/plan/planner.hpp"
#include "tessera/train/compiled.hpp"
#include "train/deck_run.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

/// Blocks of several sizes, so that which of them is computed again matters.
const char* const kPictures = R"(
[model]
name = resnet
depth = 18
blocks = 2,1,2
filters = 4
stem = small
height = 12
width = 12
classes = 5
[data]
source = random
batch = 8
[train]
steps = 3
[layout]
rules = batch:batch
)";

const char* const kPairs = R"(
[model]
name = seq2seq
layers = 4
d_model = 16
d_ff = 32
heads = 2
vocab = 50
max_length = 24
dropout = 0.1
[data]
source = random
batch = 8
length = 24
[train]
steps = 3
[layout]
rules = batch:batch
)";

double seconds_of(const train::Settings& settings, const program::Program& program,
                  const std::vector<plan::SectionRuns>& step) {
  const auto machine = train::machine_of(settings);
  return plan::CostModel(machine, program.mesh, settings.plan.ranks_per_node)
      .predict(program, step)
      .step;
}

struct Trial {
  std::int64_t bytes;
  double seconds;
};

/// Each set of the model's regions, computed again.
std::vector<Trial> all_sets(const DeckRun& deck, const std::string& mesh) {
  const auto settings = deck.settings("plan", mesh);
  const auto choice = train::chosen(*settings, MeshShape::parse(mesh, 0).size());
  const auto regions = train::make_task(*settings, choice, {})->graphs()[0]->regions();
  REQUIRE(regions.size() == 5);
  std::vector<Trial> trials;
  for (std::size_t set = 0; set < std::size_t{1} << regions.size(); ++set) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < regions.size(); ++i)
      if ((set >> i & 1) != 0) names.push_back(regions[i]);
    train::Compiled compiled;
    compiled.task = train::make_task(*settings, choice, names);
    plan::PlanOptions options;
    options.mesh = choice.mesh;
    options.layout = choice.layout;
    compiled.program = plan::compile(compiled.task->variables(), compiled.task->graphs(), options);
    trials.push_back(
        {compiled.program.arena_bytes, seconds_of(*settings, compiled.program, compiled.step())});
  }
  return trials;
}

/// A limit of so many bytes.
std::vector<std::string> within(double bytes) {
  return {"--plan.memory_limit=" + std::to_string(static_cast<std::int64_t>(bytes)),
          "--train.recompute=auto"};
}

}  // namespace

TEST_CASE("no set of blocks fits the limit at less time than the one chosen") {
  const DeckRun deck(kPictures);
  const char* const mesh = "batch:2";
  const auto trials = all_sets(deck, mesh);
  std::int64_t least = trials[0].bytes;
  for (const auto& trial : trials) least = std::min(least, trial.bytes);
  CHECK(static_cast<double>(least) < 0.95 * static_cast<double>(trials[0].bytes));
  for (const int part : {0, 3, 6, 9}) {
    const double limit =
        static_cast<double>(least) + 0.1 * part * static_cast<double>(trials[0].bytes - least);
    INFO(part << " tenths");
    double best = std::numeric_limits<double>::infinity();
    for (const auto& trial : trials)
      if (static_cast<double>(trial.bytes) <= limit) best = std::min(best, trial.seconds);
    const auto settings = deck.settings("plan", mesh, within(limit + 1));
    const auto compiled = train::compile(*settings, MeshShape::parse(mesh, 0).size());
    CHECK(static_cast<double>(compiled.program.arena_bytes) <= limit + 1);
    CHECK(seconds_of(*settings, compiled.program, compiled.step()) <= best * (1 + 1e-9));
  }
}

TEST_CASE("a deck that does not fit does with blocks computed again, and gives the same numbers") {
  for (const char* text : {kPictures, kPairs}) {
    const DeckRun deck(text);
    for (const char* mesh : {"batch:1", "batch:2"}) {
      INFO(mesh);
      const auto ranks = MeshShape::parse(mesh, 0).size();
      const auto bytes = [&](const char* recompute) {
        const auto settings =
            deck.settings("plan", mesh, {std::string("--train.recompute=") + recompute});
        return static_cast<double>(train::compile(*settings, ranks).program.arena_bytes);
      };
      const double kept = bytes("none"), all = bytes("all"), limit = (kept + all) / 2;
      CHECK(all < 0.95 * kept);
      auto keys = within(limit);
      const std::string refused = deck.refusal(mesh, {keys[0]});
      CHECK(refused.find("plan.memory_limit") != std::string::npos);
      CHECK(refused.find("train.recompute") != std::string::npos);
      deck.train("kept", mesh);
      const std::string header = deck.train("again", mesh, keys);
      CHECK(header.find("run again in the backward pass") != std::string::npos);
      CHECK(deck.difference("kept", "again", "loss") == 0);
      CHECK(deck.refusal(mesh, within(0.5 * all)).find("plan.memory_limit") != std::string::npos);
    }
  }
}
