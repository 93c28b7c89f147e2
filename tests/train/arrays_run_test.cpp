// SPDX-License-Identifier: BSD-3-Clause
// Models without tokens: a classifier trained from an array file, on several meshes.
#include <algorithm>
#include <array>

#include "data/writer.hpp"
#include "train/deck_run.hpp"

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
path = points.h5
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

/// Points of three classes: which of three sums of two coordinates is the largest. Each counts
/// `weight`.
void write_points(const std::string& path, std::int64_t samples, float weight = 1) {
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
  test::Writer writer(path);
  using Kind = io::ElementType::Kind;
  writer.add("/train/image", {samples, 2, 3}, points, Kind::floating);
  writer.add("/train/label", {samples}, labels, Kind::unsigned_integer);
  const std::vector<float> weights(static_cast<std::size_t>(samples), weight);
  if (weight != 1) writer.add("/train/weights", {samples}, weights, Kind::floating);
  writer.write();
}

}  // namespace

TEST_CASE("A classifier learns from an array file, with the same numbers on every mesh") {
  const test::DeckRun deck(kDeck);
  write_points(deck.path("points.h5"), 203);
  const std::string text = deck.train("one", "batch:1,model:1,io:1,classes:1");
  CHECK(text.find("10 samples, ") != std::string::npos);
  CHECK(text.find("step 60  validation loss ") != std::string::npos);
  CHECK(text.find("done: 60 steps, 576 samples") != std::string::npos);
  const auto accuracy = deck.values("one", "validation_accuracy");
  REQUIRE(accuracy.size() == 2);
  CHECK(accuracy[1] > 0.75);
  CHECK(deck.values("one", "validation_samples") == std::vector<double>{41, 41});
  for (const char* mesh : {"batch:2,model:1,io:1,classes:1", "batch:3,model:1,io:1,classes:1",
                           "batch:1,model:2,io:2,classes:1", "batch:2,model:1,io:1,classes:2"}) {
    INFO(mesh);
    deck.train("many", mesh, {"--train.micro_batches=2"});
    for (const char* key :
         {"loss", "grad_norm", "accuracy", "validation_loss", "validation_accuracy", "samples"})
      CHECK(deck.difference("one", "many", key) < 1e-9);
  }
}

TEST_CASE("A run that shall end with a text that its model cannot write does not begin") {
  const test::DeckRun deck(kDeck);
  write_points(deck.path("points.h5"), 103);
  CHECK(deck.refusal("batch:1,model:1,io:1,classes:1", {"--sample.length=5"})
            .find("model 'mlp' cannot sample") == 0);
  CHECK_FALSE(std::ifstream(deck.path("refused/deck.ini")).is_open());
}

TEST_CASE("A loss is a mean by weights, however small these are") {
  const test::DeckRun deck(kDeck);
  const std::string mesh = "batch:2,model:1,io:1,classes:1";
  const std::vector<std::string> settings{"--train.steps=10", "--eval.every=5"};
  write_points(deck.path("points.h5"), 103);
  deck.train("ones", mesh, settings);
  write_points(deck.path("points.h5"), 103, 0x1p-6F);
  deck.train("small", mesh, settings);
  for (const char* key : {"loss", "grad_norm", "accuracy", "validation_loss"})
    CHECK(deck.difference("ones", "small", key) < 1e-9);
}
