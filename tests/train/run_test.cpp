// SPDX-License-Identifier: BSD-3-Clause
// Whole runs on simulated meshes: the loop, its checkpoints and its verdicts.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/scratch.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"
#include "tessera/device/exec.hpp"
#include "tessera/io/checkpoint.hpp"
#include "tessera/io/digest.hpp"
#include "tessera/models/transformer.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/reduce.hpp"
#include "tessera/train/loop.hpp"
#include "tessera/train/verbs.hpp"

using namespace tessera;
namespace fs = std::filesystem;

namespace {

const char* const kDeck = R"(
[model]
layers = 1
d_model = 10
d_ff = 14
heads = 3
d_kv = 4
vocab = 257
max_length = 7
dropout = 0.2
[data]
batch = 5
length = 7
path = text.txt
validation_fraction = 0.2
[optim]
lr = 0.01
clip_norm = 0.5
[train]
steps = 6
dtype = f64
[layout]
rules = batch:batch, vocab:model, d_ff:model, heads:model
[run]
dir = run
log_seconds = 0
)";

/// Moves half the way to the sum of a batch's weights: exact in every order of summation.
void move_running_weight(Graph& graph, Tensor weights) {
  Variable variable;
  variable.name = "running_weight";
  variable.spec = {Shape{}, DType::f64};
  variable.kind = Variable::Kind::state;
  const Tensor before = graph.variable(variable);
  const Tensor sum = ops::cast(ops::reduce_sum(weights, Shape{}), DType::f64);
  graph.assign("running_weight", ops::multiply(ops::add(before, sum), 0.5));
}

/// Every token '~' has an infinite weight, so the rank that holds one, and no other, finds
/// gradients that are not finite, and so becomes a running statistic.
class Poisoned : public models::Transformer {
 public:
  Tensor loss(Graph& graph, const replicate::Batch& batch) override {
    replicate::Batch poisoned = batch;
    const Tensor tokens = ops::cast(batch["tokens"], DType::f32);
    const Tensor tilde = ops::fill(graph, '~', tokens.spec());
    const Tensor factor = ops::exp(ops::multiply(ops::equal(tokens, tilde), 1000.0));
    poisoned.inputs["weights"] = ops::multiply(batch["weights"], factor);
    if (batch.mode == replicate::Mode::train)
      move_running_weight(graph, poisoned.inputs["weights"]);
    return Transformer::loss(graph, poisoned);
  }
};

struct Fixture {
  test::Scratch scratch;
  fs::path folder = scratch.folder();
  train::Models models;
  std::string out;

  Fixture() {
    static const device::Runtime runtime;
    models.add("transformer", [] { return std::make_unique<models::Transformer>(); });
    models.add("poisoned", [] { return std::make_unique<Poisoned>(); });
    write_text(false);
  }

  /// 600 tokens; one of them is '~' if asked for.
  void write_text(bool poisoned) const {
    std::string text;
    for (int i = 0; text.size() < 600; ++i) text += "tile " + std::to_string(i * i % 97) + ", ";
    text.resize(600);
    if (poisoned) text[100] = '~';
    std::ofstream(folder / "text.txt") << text;
  }

  train::ExitCode run(std::int64_t ranks, const std::vector<std::string>& settings) {
    config::Deck deck = config::Deck::parse(kDeck, (folder / "deck.ini").string());
    deck.set(settings);
    const auto read = train::read_settings(deck, models);
    const auto backend = train::simulated_backend(ranks);
    std::ostringstream stream;
    const auto code = train::train(*backend, *read, stream);
    out = stream.str();
    return code;
  }

  std::string setting_of_dir(const std::string& name) const {
    return "--run.dir=" + (folder / name).string();
  }

  std::vector<std::string> lines(const std::string& name) const {
    std::ifstream in(folder / name / "metrics.jsonl");
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
  }

  /// Values of a key in metrics.jsonl; NaN for null.
  std::vector<double> values(const std::string& name, const std::string& key) const {
    std::vector<double> values;
    const std::string mark = "\"" + key + "\": ";
    for (const auto& line : lines(name)) {
      const auto at = line.find(mark);
      if (at == std::string::npos) continue;
      const std::string text = line.substr(at + mark.size());
      values.push_back(text.rfind("null", 0) == 0 ? std::nan("") : std::stod(text));
    }
    return values;
  }
};

bool close(const std::vector<double>& a, const std::vector<double>& b, double tolerance) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!(std::abs(a[i] - b[i]) <= tolerance * std::max(1.0, std::abs(b[i])))) return false;
  return true;
}

const std::vector<std::pair<std::string, std::int64_t>> kMeshes{
    {"batch:2", 2},         {"model:2", 2},         {"batch:3", 3},
    {"batch:2,model:2", 4}, {"batch:1,model:8", 8}, {"batch:2,model:2,other:2", 8}};

}  // namespace

TEST_CASE_METHOD(Fixture, "Every mesh gives the losses of one rank") {
  REQUIRE(run(1, {setting_of_dir("one"), "--mesh.shape=batch:1,model:1", "--eval.every=3"}) ==
          train::kDone);
  const auto losses = values("one", "loss"), norms = values("one", "grad_norm");
  const auto validation = values("one", "validation_loss");
  REQUIRE(losses.size() == 6);
  REQUIRE(validation.size() == 2);
  CHECK(losses.back() < losses.front());
  for (const auto& [mesh, ranks] : kMeshes) {
    INFO(mesh);
    const bool has_both =
        mesh.find("batch") != std::string::npos && mesh.find("model") != std::string::npos;
    const std::string shape = has_both ? mesh : mesh + (mesh[0] == 'b' ? ",model:1" : ",batch:1");
    REQUIRE(run(ranks, {setting_of_dir("many"), "--mesh.shape=" + shape, "--eval.every=3",
                        "--run.overwrite=true"}) == train::kDone);
    CHECK(close(values("many", "loss"), losses, 1e-9));
    CHECK(close(values("many", "grad_norm"), norms, 1e-9));
    CHECK(close(values("many", "validation_loss"), validation, 1e-9));
  }
}

TEST_CASE_METHOD(Fixture, "A run that is resumed on another mesh goes on with the same numbers") {
  REQUIRE(run(1, {setting_of_dir("one"), "--mesh.shape=batch:1,model:1"}) == train::kDone);
  const auto losses = values("one", "loss");
  std::int64_t step = 0;
  for (const auto& [mesh, ranks] :
       std::vector<std::pair<std::string, std::int64_t>>{{"batch:1,model:1", 1},
                                                         {"batch:3,model:1", 3},
                                                         {"batch:2,model:2", 4},
                                                         {"batch:1,model:8", 8}}) {
    ++step;
    REQUIRE(run(ranks, {setting_of_dir("hops"), "--mesh.shape=" + mesh, "--train.resume=auto",
                        "--optim.shard=batch", "--optim.schedule_steps=6",
                        "--train.steps=" + std::to_string(step)}) == train::kDone);
  }
  CHECK(close(values("hops", "loss"), {losses.begin(), losses.begin() + 4}, 1e-9));
}

TEST_CASE_METHOD(Fixture, "What any mesh saved, any mesh goes on with") {
  const std::vector<std::pair<std::string, std::int64_t>> meshes = {
      {"batch:1,model:1", 1}, {"batch:2,model:1", 2}, {"batch:1,model:3", 3},
      {"batch:4,model:1", 4}, {"batch:2,model:2", 4},
  };
  REQUIRE(run(1, {setting_of_dir("one"), "--mesh.shape=batch:1,model:1"}) == train::kDone);
  const auto losses = values("one", "loss"), norms = values("one", "grad_norm");
  for (const auto& [from, savers] : meshes) {
    REQUIRE(run(savers, {setting_of_dir("saved"), "--mesh.shape=" + from, "--run.overwrite=true",
                         "--optim.schedule_steps=6", "--train.steps=2"}) == train::kDone);
    for (const auto& [to, loaders] : meshes) {
      INFO("from " << from << " to " << to);
      fs::remove_all(folder / "loaded");
      fs::copy(folder / "saved", folder / "loaded",
               fs::copy_options::recursive | fs::copy_options::copy_symlinks);
      REQUIRE(run(loaders, {setting_of_dir("loaded"), "--mesh.shape=" + to, "--train.resume=auto",
                            "--optim.schedule_steps=6"}) == train::kDone);
      CHECK(close(values("loaded", "loss"), losses, 1e-9));
      CHECK(close(values("loaded", "grad_norm"), norms, 1e-9));
    }
  }
}

TEST_CASE_METHOD(Fixture, "On the same mesh a resumed run is bitwise the same") {
  const std::string mesh = "--mesh.shape=batch:2,model:2";
  REQUIRE(run(4, {setting_of_dir("straight"), mesh}) == train::kDone);
  for (const char* steps : {"--train.steps=2", "--train.steps=6"})
    REQUIRE(run(4, {setting_of_dir("resumed"), mesh, "--train.resume=auto",
                    "--optim.schedule_steps=6", steps}) == train::kDone);
  for (const char* key : {"loss", "grad_norm", "lr", "tokens", "epoch"})
    CHECK(values("resumed", key) == values("straight", key));
}

TEST_CASE_METHOD(Fixture, "train.steps = 0 saves first values that no mesh changes") {
  REQUIRE(run(1, {setting_of_dir("one"), "--mesh.shape=batch:1,model:1", "--train.steps=0"}) ==
          train::kDone);
  REQUIRE(run(6, {setting_of_dir("six"), "--mesh.shape=batch:2,model:3", "--train.steps=0"}) ==
          train::kDone);
  const io::Checkpoint one((folder / "one/checkpoints/step_00000000.h5").string());
  const io::Checkpoint six((folder / "six/checkpoints/step_00000000.h5").string());
  REQUIRE(one.tensors().size() == six.tensors().size());
  CHECK(one.tensors().size() > 10);
  for (const auto& tensor : one.tensors()) {
    INFO(tensor.path);
    REQUIRE(six.find(tensor.path));
    CHECK(six.find(tensor.path)->digest == tensor.digest);
  }
}

TEST_CASE_METHOD(Fixture,
                 "All ranks skip a step that is not finite on one of them, and say where") {
  write_text(true);
  const std::vector<std::string> common{"--model.name=poisoned", "--train.on_nonfinite=skip",
                                        "--train.steps=14", "--run.overwrite=true"};
  std::vector<double> losses;
  for (const auto& [mesh, ranks] :
       std::vector<std::pair<std::string, std::int64_t>>{{"batch:1,model:1", 1},
                                                         {"batch:2,model:1", 2},
                                                         {"batch:5,model:1", 5},
                                                         {"batch:2,model:2", 4}}) {
    INFO(mesh);
    auto settings = common;
    settings.push_back(setting_of_dir("skip"));
    settings.push_back("--mesh.shape=" + mesh);
    REQUIRE(run(ranks, settings) == train::kDone);
    auto now = values("skip", "loss");
    REQUIRE(now.size() == 14);
    const auto bad = std::count_if(now.begin(), now.end(), [](double x) { return std::isnan(x); });
    CHECK(bad == 1);  // 14 steps of 5 samples of 7 tokens: the text's one '~' is met once
    CHECK(out.find("is not finite") != std::string::npos);
    CHECK(out.find(", first in the gradient of ") != std::string::npos);
    CHECK(out.find("skipped on all ranks") != std::string::npos);
    // Only the rank that holds the token's row is blamed for the loss.
    CHECK(out.find("; the loss of rank ") != std::string::npos);
    CHECK(out.find("; the loss of ranks ") == std::string::npos);
    for (double& loss : now)
      if (std::isnan(loss)) loss = -1;
    if (losses.empty()) losses = now;
    CHECK(close(now, losses, 1e-9));
  }
}

TEST_CASE_METHOD(Fixture, "A step that is skipped leaves running statistics as they were") {
  write_text(true);
  // The last: servers add what groups push of the statistics' changes.
  const std::vector<std::pair<std::string, std::int64_t>> ways{
      {"--mesh.shape=batch:1,model:1", 1},
      {"--mesh.shape=batch:2,model:2", 4},
      {"--replicate.mode=async --mesh.shape=batch:1,model:1", 2}};
  for (const auto& [more, ranks] : ways) {
    INFO(more);
    std::vector<std::string> settings{setting_of_dir("skip"), "--model.name=poisoned",
                                      "--train.on_nonfinite=skip", "--train.steps=14",
                                      "--run.overwrite=true"};
    for (const auto& setting : split(more, ' ')) settings.push_back(setting);
    REQUIRE(run(ranks, settings) == train::kDone);
    const auto losses = values("skip", "loss"), tokens = values("skip", "tokens");
    REQUIRE(losses.size() == 14);
    double expected = 0, last = 0;
    for (std::size_t i = 0; i < losses.size(); ++i) {
      if (!std::isnan(losses[i])) expected = (expected + tokens[i] - last) * 0.5;
      last = tokens[i];
    }
    const io::Checkpoint saved((folder / "skip/checkpoints/step_00000014.h5").string());
    REQUIRE(saved.find("/state/running_weight"));
    CHECK(saved.find("/state/running_weight")->digest ==
          io::digest_tile(DType::f64, Shape{}, {}, &expected));
  }
}

TEST_CASE_METHOD(Fixture, "Running statistics come with the weights that a run begins with") {
  const std::vector<std::string> common{"--mesh.shape=batch:1,model:1", "--model.name=poisoned"};
  const auto trained = [&](const std::string& dir, const std::vector<std::string>& more) {
    std::vector<std::string> settings = common;
    settings.push_back(setting_of_dir(dir));
    settings.insert(settings.end(), more.begin(), more.end());
    REQUIRE(run(1, settings) == train::kDone);
  };
  trained("first", {"--train.steps=3"});
  const std::string file = (folder / "first/checkpoints/step_00000003.h5").string();
  trained("second", {"--train.steps=0", "--train.init_from=" + file});
  const io::Checkpoint first(file);
  const io::Checkpoint second((folder / "second/checkpoints/step_00000000.h5").string());
  for (const char* path : {"/state/running_weight", "/variables/embedding"}) {
    INFO(path);
    REQUIRE((first.find(path) && second.find(path)));
    CHECK(second.find(path)->digest == first.find(path)->digest);
  }
}

TEST_CASE_METHOD(Fixture, "A run that goes on for longer keeps the schedule of its first start") {
  const std::vector<std::string> common{"--mesh.shape=batch:1,model:1",
                                        "--optim.schedule=linear_decay"};
  const auto with = [&](const std::string& dir, const std::vector<std::string>& more) {
    std::vector<std::string> settings = common;
    settings.push_back(setting_of_dir(dir));
    settings.insert(settings.end(), more.begin(), more.end());
    return settings;
  };
  REQUIRE(run(1, with("straight", {"--train.steps=6", "--optim.schedule_steps=4"})) ==
          train::kDone);
  REQUIRE(run(1, with("longer", {"--train.steps=4"})) == train::kDone);
  REQUIRE(run(1, with("longer", {"--train.steps=6", "--train.resume=auto"})) == train::kDone);
  for (const char* key : {"lr", "loss"}) CHECK(values("longer", key) == values("straight", key));
  CHECK(values("longer", "lr").back() == 0);
  // What saved nothing but first values counted on no steps.
  REQUIRE(run(1, with("later", {"--train.steps=0"})) == train::kDone);
  REQUIRE(run(1, with("later", {"--train.steps=4", "--train.resume=auto"})) == train::kDone);
  REQUIRE(run(1, with("later", {"--train.steps=6", "--train.resume=auto"})) == train::kDone);
  for (const char* key : {"lr", "loss"}) CHECK(values("later", key) == values("straight", key));
}

TEST_CASE_METHOD(Fixture, "A run that diverges stops and leaves good checkpoints alone") {
  write_text(true);
  REQUIRE(run(2, {setting_of_dir("stop"), "--model.name=poisoned", "--train.steps=14",
                  "--mesh.shape=batch:2,model:1", "--checkpoint.every=1", "--checkpoint.keep=0"}) ==
          train::kFailure);
  const auto losses = values("stop", "loss");
  CHECK(losses.size() < 14);
  for (double loss : losses) CHECK(std::isfinite(loss));
  std::size_t files = 0;
  for (const auto& entry : fs::directory_iterator(folder / "stop/checkpoints"))
    files += entry.path().filename().string().rfind("step_", 0) == 0;
  CHECK(files == losses.size());
}

TEST_CASE_METHOD(Fixture, "bf16 activations change the loss by less than a hundredth") {
  std::vector<std::vector<double>> losses;
  for (const char* dtype : {"f32", "bf16"}) {
    REQUIRE(run(4, {setting_of_dir(dtype), "--mesh.shape=batch:2,model:2", "--train.steps=200",
                    "--optim.lr=0.003", "--model.dropout=0",
                    std::string("--train.dtype=") + dtype}) == train::kDone);
    losses.push_back(values(dtype, "loss"));
  }
  REQUIRE(losses[0].size() == 200);
  CHECK(losses[0].back() < 0.7 * losses[0].front());
  CHECK(close(losses[1], losses[0], 0.01));
  CHECK(losses[1] != losses[0]);
}

TEST_CASE_METHOD(Fixture, "A stop file ends the run with a checkpoint and exit code 0") {
  fs::create_directories(folder / "stopped");
  std::ofstream(folder / "stopfile") << "";
  REQUIRE(run(2, {setting_of_dir("stopped"), "--mesh.shape=batch:2,model:1",
                  "--run.stop_file=" + (folder / "stopfile").string()}) == train::kDone);
  CHECK_FALSE(fs::exists(folder / "stopfile"));
  CHECK(fs::exists(folder / "stopped/checkpoints/step_00000000.h5"));
  REQUIRE(run(2, {setting_of_dir("stopped"), "--mesh.shape=batch:2,model:1",
                  "--train.resume=auto"}) == train::kDone);
  CHECK(values("stopped", "loss").size() == 6);
}

TEST_CASE_METHOD(Fixture, "An evaluation that is due but not asked for any more does not end it") {
  const auto common = [&](const std::string& dir) {
    return std::vector<std::string>{setting_of_dir(dir), "--mesh.shape=batch:2,model:1",
                                    "--data.validation_fraction=0"};
  };
  const std::vector<std::vector<std::string>> ways{
      {}, {"--data.validation=" + (folder / "text.txt").string(), "--eval.every=0"}};
  for (std::size_t way = 0; way < ways.size(); ++way) {
    const std::string dir = "due" + std::to_string(way);
    auto first = common(dir), second = first;
    // The first checkpoint stops it in the second step, behind which an evaluation is due.
    const auto stop = folder / dir / "checkpoints/step_00000001.h5";
    for (const std::string& setting :
         {"--data.validation=" + (folder / "text.txt").string(), std::string("--eval.every=2"),
          std::string("--checkpoint.every=1"), "--run.stop_file=" + stop.string()})
      first.push_back(setting);
    REQUIRE(run(2, first) == train::kDone);
    REQUIRE(values(dir, "loss").size() == 2);
    second.push_back("--train.resume=auto");
    second.insert(second.end(), ways[way].begin(), ways[way].end());
    REQUIRE(run(2, second) == train::kDone);
    CHECK(values(dir, "loss").size() == 6);
    CHECK(values(dir, "validation_loss").empty());
  }
}

TEST_CASE_METHOD(Fixture, "A checkpoint from elsewhere does not cut the run of a folder short") {
  const auto settings = [&](const char* dir, const std::string& more) {
    return std::vector<std::string>{setting_of_dir(dir), "--mesh.shape=batch:1,model:1",
                                    "--checkpoint.every=2", "--checkpoint.keep=0", more};
  };
  for (const char* dir : {"one", "two"})
    REQUIRE(run(1, settings(dir, "--train.resume=never")) == train::kDone);
  const std::string from =
      "--train.resume=" + (folder / "one/checkpoints/step_00000002.h5").string();
  CHECK_THROWS_AS(run(1, settings("two", from)), UserError);
  CHECK(values("two", "loss").size() == 6);
  CHECK(fs::exists(folder / "two/checkpoints/step_00000006.h5"));
  const auto losses = values("one", "loss");
  REQUIRE(run(1, settings("one", from)) == train::kDone);  // its own: back to step 2
  CHECK(values("one", "loss") == losses);
  auto overwriting = settings("two", from);
  overwriting.push_back("--run.overwrite=true");
  REQUIRE(run(1, overwriting) == train::kDone);
  CHECK(values("two", "loss") == std::vector<double>(losses.begin() + 2, losses.end()));
}

TEST_CASE_METHOD(Fixture, "The header says what runs, and the best checkpoint stays") {
  REQUIRE(run(4, {setting_of_dir("run"), "--mesh.shape=batch:2,model:2", "--eval.every=1",
                  "--checkpoint.keep=1", "--checkpoint.best=true", "--sample.length=5",
                  "--sample.prompt=tile"}) == train::kDone);
  for (const char* text :
       {"Tessera ", "mesh      batch:2,model:2", "4 ranks simulated", "transformer, ",
        "new run, seed 1", "collectives", "validation loss", "\nsample:\ntile", "done: 6 steps"}) {
    INFO(text);
    CHECK(out.find(text) != std::string::npos);
  }
  CHECK(fs::exists(folder / "run/checkpoints/best.h5"));
  CHECK(fs::exists(folder / "run/checkpoints/step_00000006.h5"));
  CHECK_FALSE(fs::exists(folder / "run/checkpoints/step_00000005.h5"));
  CHECK(fs::exists(folder / "run/deck.ini"));
}
