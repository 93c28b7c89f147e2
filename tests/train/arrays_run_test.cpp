// SPDX-License-Identifier: BSD-3-Clause
// Models without tokens: a classifier trained from an array file, on several meshes.
#include <filesystem>
#include <fstream>
#include <sstream>

#include "data/scratch.hpp"
#include "data/writer.hpp"
#include "support/catch.hpp"
#include "tessera/device/exec.hpp"
#include "tessera/models/mlp.hpp"
#include "tessera/train/loop.hpp"
#include "tessera/train/verbs.hpp"

using namespace tessera;

namespace {

const char* const kDeck = R"(
[model]
name = mlp
io = 6
hidden = 16
classes = 3
[data]
source = arrays
path = rings.h5
batch = 10
validation_fraction = 0.2
[optim]
lr = 0.03
[train]
steps = 60
dtype = f64
[eval]
every = 30
[layout]
rules = batch:batch, hidden:model, io:io, classes:classes
)";

/// Points of three classes: which of three sums of two coordinates is the largest.
void write_points(const std::string& path, std::int64_t samples) {
  std::vector<float> points;
  std::vector<std::uint8_t> labels;
  std::uint32_t state = 1;
  for (std::int64_t s = 0; s < samples; ++s) {
    std::array<float, 3> sums{};
    for (std::size_t i = 0; i < 6; ++i) {
      state = state * 1664525U + 1013904223U;
      points.push_back(static_cast<float>(state >> 8) / 8388608.0F - 1);
      sums[i / 2] += points.back();
    }
    labels.push_back(
        static_cast<std::uint8_t>(std::max_element(sums.begin(), sums.end()) - sums.begin()));
  }
  data::test::Writer writer(path);
  using Kind = io::ElementType::Kind;
  writer.add("/train/image", {samples, 2, 3}, points, Kind::floating);
  writer.add("/train/label", {samples}, labels, Kind::unsigned_integer);
  writer.write();
}

/// Values of a key in the lines of metrics.jsonl.
std::vector<double> values(const std::string& file, const std::string& key) {
  std::ifstream in(file);
  std::vector<double> values;
  const std::string mark = "\"" + key + "\": ";
  for (std::string line; std::getline(in, line);)
    if (const auto at = line.find(mark); at != std::string::npos)
      values.push_back(std::stod(line.substr(at + mark.size())));
  return values;
}

}  // namespace

TEST_CASE("A classifier learns from an array file, with the same numbers on every mesh") {
  static const device::Runtime runtime;
  const data::test::Scratch scratch;
  write_points(scratch.path("rings.h5"), 203);
  train::Models models;
  models.add("mlp", [] { return std::make_unique<models::Mlp>(); });
  const auto run = [&](const std::string& name, const std::string& mesh, std::int64_t ranks,
                       const std::vector<std::string>& more) {
    config::Deck deck = config::Deck::parse(kDeck, scratch.path("deck.ini"));
    std::vector<std::string> settings{"--run.dir=" + scratch.path(name), "--mesh.shape=" + mesh};
    settings.insert(settings.end(), more.begin(), more.end());
    deck.set(settings);
    const auto read = train::read_settings(deck, models);
    std::ostringstream out;
    REQUIRE(train::train(*train::simulated_backend(ranks), *read, out) == train::kDone);
    return out.str();
  };
  const std::string one = "batch:1,model:1,io:1,classes:1";
  const std::string text = run("one", one, 1, {});
  CHECK(text.find("10 samples, ") != std::string::npos);
  CHECK(text.find("step 60  validation loss ") != std::string::npos);
  CHECK(text.find("done: 60 steps, 576 samples") != std::string::npos);
  const std::string reference = scratch.path("one/metrics.jsonl");
  const auto accuracy = values(reference, "validation_accuracy");
  REQUIRE(accuracy.size() == 2);
  CHECK(accuracy[1] > 0.75);
  CHECK(values(reference, "validation_samples") == std::vector<double>{41, 41});
  for (const auto& [mesh, ranks] :
       std::vector<std::pair<std::string, std::int64_t>>{{"batch:2,model:1,io:1,classes:1", 2},
                                                         {"batch:3,model:1,io:1,classes:1", 3},
                                                         {"batch:1,model:2,io:2,classes:1", 4},
                                                         {"batch:2,model:1,io:1,classes:2", 4}}) {
    INFO(mesh);
    run("many", mesh, ranks, {"--run.overwrite=true", "--train.micro_batches=2"});
    const std::string file = scratch.path("many/metrics.jsonl");
    for (const char* key :
         {"loss", "grad_norm", "accuracy", "validation_loss", "validation_accuracy", "samples"}) {
      const auto wanted = values(reference, key), found = values(file, key);
      REQUIRE(found.size() == wanted.size());
      double worst = 0;
      for (std::size_t i = 0; i < wanted.size(); ++i)
        worst = std::max(worst, std::abs(found[i] - wanted[i]));
      CHECK(worst < 1e-9);
    }
  }
}
