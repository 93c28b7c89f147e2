// SPDX-License-Identifier: BSD-3-Clause
// Runs of adversarial nets: stopped and resumed they end bitwise where one run ends, with both
// optimizers, singular vectors and running statistics; samples are array files.
#include <fstream>
#include <map>

#include "data/writer.hpp"
#include "tessera/io/hdf5.hpp"
#include "train/deck_run.hpp"

using namespace tessera;

namespace {

const char* const kDeck = R"(
[model]
name = sngan
base = 2
channels = 1
classes = 3
latent = 4
generator = 3,2
discriminator = 2,3
flat_blocks = 1
discriminator_steps = 2
[data]
source = arrays
path = pictures.h5
batch = 4
[train]
steps = 4
[sample]
count = 5
every = 2
[layout]
rules = batch:data
)";

void write_pictures(const std::string& path) {
  std::vector<std::uint8_t> pixels, labels;
  std::uint32_t state = 1;
  for (int i = 0; i < 22 * 8 * 8; ++i) {
    state = state * 1664525U + 1013904223U;
    pixels.push_back(static_cast<std::uint8_t>(state >> 24));
    if (i % 64 == 0) labels.push_back(static_cast<std::uint8_t>(state >> 16) % 3);
  }
  test::Writer writer(path);
  using Kind = io::ElementType::Kind;
  writer.add("/train/image", {22, 8, 8}, pixels, Kind::unsigned_integer).set("factor", 1 / 255.0);
  writer.add("/train/label", {22}, labels, Kind::unsigned_integer);
  writer.write();
}

/// The bytes of all datasets of a file by path.
std::map<std::string, std::string> contents(const std::string& file) {
  std::map<std::string, std::string> all;
  std::ifstream in(file, std::ios::binary);
  for (const auto& dataset : io::read_index(file).datasets) {
    std::string bytes(static_cast<std::size_t>(dataset.size() * dataset.type.bytes), '\0');
    in.seekg(dataset.offset);
    in.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    all[dataset.path] = bytes;
  }
  return all;
}

}  // namespace

TEST_CASE("Adversarial nets resume bitwise and draw samples") {
  const test::DeckRun deck(kDeck);
  write_pictures(deck.path("pictures.h5"));
  for (const auto& [mesh, groups] : {std::pair{"data:1", "1"}, {"data:2", "1"}, {"data:4", "2"}}) {
    INFO(mesh << ", norms of " << groups << " replicas");
    const std::string norms = std::string("--model.norm_groups=") + groups;
    const std::string text = deck.train("whole", mesh, {norms});
    const auto drawn_at = text.find("drew " + deck.path("whole/samples/step_00000004.h5"));
    CHECK(drawn_at != std::string::npos);
    CHECK(text.find("saved " + deck.path("whole/checkpoints/step_00000004.h5")) < drawn_at);
    deck.train("parts", mesh, {norms, "--train.steps=2"});
    const auto half = contents(deck.path("parts/samples/step_00000002.h5"));
    CHECK(half == contents(deck.path("whole/samples/step_00000002.h5")));
    deck.train("parts", mesh, {norms, "--train.resume=auto"});
    const std::string newest = "/checkpoints/step_00000004.h5";
    const auto expected = contents(deck.path("whole" + newest));
    int moments = 0, vectors = 0;
    for (const auto& [path, bytes] : expected) {
      if (path.starts_with("/optimizer/")) ++moments;
      if (path.ends_with("_u")) ++vectors;
    }
    CHECK(moments > 40);
    CHECK(vectors == 3 * 3 + 2);
    CHECK(contents(deck.path("parts" + newest)) == expected);
    for (const char* key : {"loss", "discriminator/loss", "generator/loss", "grad_norm"})
      CHECK(deck.difference("whole", "parts", key) == 0);
    const auto drawn = contents(deck.path("parts/samples/step_00000004.h5"));
    CHECK(drawn == contents(deck.path("whole/samples/step_00000004.h5")));
    CHECK(drawn.at("/train/image") != half.at("/train/image"));
    CHECK(drawn.at("/train/image").size() == 5 * 8 * 8 * sizeof(float));
    const auto* labels = reinterpret_cast<const std::int32_t*>(drawn.at("/train/label").data());
    CHECK(std::vector<std::int32_t>(labels, labels + 5) ==
          std::vector<std::int32_t>{0, 1, 2, 0, 1});
  }
}

TEST_CASE("A single group's adversarial nets learn as in a synchronous run") {
  const test::DeckRun deck(kDeck);
  write_pictures(deck.path("pictures.h5"));
  deck.train("sync", "data:2", {"--train.dtype=f64"});
  deck.train_async("async", 4, "data:2", {"--train.dtype=f64", "--replicate.servers=2"});
  for (const char* key : {"loss", "discriminator/loss", "generator/loss", "grad_norm"}) {
    INFO(key);
    CHECK(deck.difference("sync", "async", key) < 1e-9);
  }
}
