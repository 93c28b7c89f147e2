// SPDX-License-Identifier: BSD-3-Clause
// Encoder-decoder models: the same numbers on every mesh, and no pair sees another in its row.
#include "train/deck_run.hpp"

using namespace tessera;

namespace {

const char* const kDeck = R"(
[model]
name = seq2seq
layers = 1
encoder_layers = 2
d_model = 10
d_ff = 14
heads = 3
d_kv = 4
vocab = 17
max_length = 25
dropout = 0.2
label_smoothing = 0.1
[data]
source = pairs
batch = 5
length = 25
[optim]
lr = 0.01
[train]
steps = 20
dtype = f64
[eval]
every = 10
batches = 2
)";

const char* const kRules =
    "--layout.rules=batch:batch, vocab:model, d_ff:model, heads:model, d_kv:depth, "
    "d_model:width, length:length, source_length:length";

}  // namespace

TEST_CASE("Encoder and decoder give the same losses on every mesh and layout") {
  const test::DeckRun deck(kDeck);
  const auto mesh = [](const std::string& cut) {
    std::string text;
    for (const char* name : {"batch", "model", "depth", "width", "length"}) {
      const auto at = cut.find(name);
      const std::string size =
          at == std::string::npos ? "1" : cut.substr(at + std::string(name).size() + 1, 1);
      text += (text.empty() ? "" : ",") + std::string(name) + ":" + size;
    }
    return text;
  };
  const std::string text = deck.train("one", mesh(""), {kRules});
  CHECK(text.find("validation loss of single tokens' frequencies") != std::string::npos);
  const auto losses = deck.values("one", "loss");
  REQUIRE(losses.size() == 20);
  CHECK(losses.back() < losses.front());
  for (const char* cut : {"batch:2", "batch:3", "batch:4", "model:2", "model:4", "batch:2,model:2",
                          "width:2,depth:2", "length:2", "length:3"}) {
    INFO(cut);
    deck.train("many", mesh(cut), {kRules});
    for (const char* key : {"loss", "grad_norm", "validation_loss"})
      CHECK(deck.difference("one", "many", key) < 1e-9);
  }
  deck.train("many", mesh("batch:2"), {kRules, "--train.micro_batches=5", "--optim.shard=batch"});
  CHECK(deck.difference("one", "many", "loss") < 1e-9);
}

namespace {

/// Relative positions, keys shared by two queries each, and a window.
std::vector<std::string> with_local_attention(std::vector<std::string> settings,
                                              const std::string& window = "5") {
  settings.insert(settings.end(), {"--model.positions=relative", "--model.relative_buckets=6",
                                   "--model.relative_distance=7", "--model.heads=6",
                                   "--model.kv_heads=3", "--model.window=" + window});
  return settings;
}

}  // namespace

TEST_CASE("Relative positions, shared keys, windows and rings give one rank's losses too") {
  const test::DeckRun deck(kDeck);
  for (const char* window : {"5", "0"}) {
    const auto train = [&](const char* folder, const char* mesh, const char* attention) {
      auto settings = with_local_attention(
          {"--layout.rules=batch:batch, vocab:model, heads:model, length:length, "
           "source_length:length",
           std::string("--model.attention=") + attention},
          window);
      deck.train(folder, mesh, settings);
    };
    train("one", "batch:1,model:1,length:1", "auto");
    for (const auto& [mesh, attention] : {std::pair{"batch:2,model:2,length:1", "auto"},
                                          {"batch:1,model:1,length:2", "ring"},
                                          {"batch:1,model:1,length:3", "ring"},
                                          {"batch:2,model:1,length:2", "gather"}}) {
      INFO(mesh << ", " << attention << ", window " << window);
      train("many", mesh, attention);
      for (const char* key : {"loss", "grad_norm", "validation_loss"})
        CHECK(deck.difference("one", "many", key) < 1e-9);
    }
  }
}

TEST_CASE("Pairs that share a row do not see each other") {
  const test::DeckRun deck(kDeck);
  for (const bool local : {false, true}) {
    const auto settings = [&](std::vector<std::string> more) {
      more.emplace_back("--layout.rules=batch:batch");
      return local ? with_local_attention(more) : more;
    };
    deck.train("run", "batch:1", settings({}));
    const auto loss = [&](const char* packing) {
      return deck.validation_loss("run", "batch:1", settings({packing, "--eval.batches=0"}));
    };
    CHECK(loss("--data.packing=true") == Approx(loss("--data.packing=false")).epsilon(1e-12));
  }
}

TEST_CASE("The parts of an encoder-decoder are there in every form that a deck can ask for") {
  const test::DeckRun deck(kDeck);
  for (const std::vector<std::string>& form : std::vector<std::vector<std::string>>{
           {"--model.positions=sinusoid", "--model.tied=true", "--model.bias=true"},
           {"--model.positions=none", "--model.norm=layer", "--model.activation=swiglu"},
           {"--model.bias=true", "--model.norm=layer", "--model.activation=geglu"}}) {
    std::vector<std::string> settings{"--layout.rules=batch:batch, heads:model, vocab:model"};
    settings.insert(settings.end(), form.begin(), form.end());
    settings.push_back("--train.steps=3");
    deck.train("one", "batch:1,model:1", settings);
    deck.train("four", "batch:2,model:2", settings);
    CHECK(deck.difference("one", "four", "loss") < 1e-9);
  }
}
