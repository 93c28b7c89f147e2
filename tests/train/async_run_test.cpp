// SPDX-License-Identifier: BSD-3-Clause
// Asynchronous training, all its ranks simulated in one process: against synchronous runs, with
// groups that are slow, that are lost, and with messages that come twice.
#include <algorithm>
#include <filesystem>
#include <numeric>

#include "data/writer.hpp"
#include "tessera/base/error.hpp"
#include "tessera/nn/layers.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/train/messages.hpp"
#include "train/deck_run.hpp"
#include "train/numbers_model.hpp"

using namespace tessera;

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
batch = 12
length = 7
path = text.txt
validation_fraction = 0.2
[optim]
lr = 0.01
clip_norm = 0.5
ema = 0.9
[train]
steps = 8
dtype = f64
[eval]
every = 4
[layout]
rules = batch:batch, vocab:model, d_ff:model, heads:model
)";

void write_text(const test::DeckRun& deck) {
  std::ofstream out(deck.path("text.txt"));
  for (int i = 0; i < 1500; ++i) out << static_cast<char>('a' + (i * i + 3 * i / 7) % 23);
}

double sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

/// A mailbox in which the ranks 1, 2 and 3 show life again and again.
class Lively final : public comm::Mailbox {
 public:
  void send(Message message) override { inner_->send(std::move(message)); }
  std::optional<Message> receive(int at) override {
    if (++calls_ % 50 == 0)
      for (int rank = 1; rank <= 3; ++rank) inner_->send({rank, 0, train::kPulse, {}});
    return inner_->receive(at);
  }
  void pause() override { inner_->pause(); }
  void flush(double seconds) override { inner_->flush(seconds); }

 private:
  std::int64_t calls_ = 0;
  std::unique_ptr<comm::Mailbox> inner_ = comm::local_mailbox();
};

/// A mailbox in which messages that carry pushes come twice, the second time later.
class Stutter final : public comm::Mailbox {
 public:
  void send(Message message) override {
    const bool twice = message.tag == train::kPush || message.tag == train::kGradients;
    if (twice) later_.push_back(message);
    inner_->send(std::move(message));
    // Old ones come again between new ones.
    while (later_.size() > 5) {
      inner_->send(std::move(later_.front()));
      later_.erase(later_.begin());
      ++repeated;
    }
  }
  std::optional<Message> receive(int at) override { return inner_->receive(at); }
  void pause() override {}
  void flush(double) override {}
  int repeated = 0;

 private:
  std::unique_ptr<comm::Mailbox> inner_ = comm::local_mailbox();
  std::vector<Message> later_;
};

/// A mailbox in which the ranks 2 and 4 show life again and again, and gradients of rank 3 come to
/// the second server only when that waits for them, or when there are newer ones.
class Late final : public comm::Mailbox {
 public:
  explicit Late(bool is_late) : is_late_(is_late) {}
  void send(Message message) override {
    if (!is_late_ || message.tag != train::kGradients || message.from != 3 || message.to != 1)
      return inner_->send(std::move(message));
    pause();
    held_ = std::move(message);
  }
  std::optional<Message> receive(int at) override {
    if (++calls_ % 50 == 0)
      for (int rank : {2, 4}) inner_->send({rank, 0, train::kPulse, {}});
    return inner_->receive(at);
  }
  void pause() override {
    if (held_) inner_->send(std::move(*held_));
    held_.reset();
  }
  void flush(double) override {}

 private:
  bool is_late_;
  std::int64_t calls_ = 0;
  std::optional<Message> held_;
  std::unique_ptr<comm::Mailbox> inner_ = comm::local_mailbox();
};

/// Its loss is its weight, which each update thus moves by -1, whatever the data: what it has come
/// to counts the updates.
class Counter final : public test::NumbersModel {
 public:
  Tensor loss(Graph& graph, const replicate::Batch& batch) override {
    const Tensor nothing = ops::multiply(ops::cast(batch["x"], batch.dtype), 0.0);
    return nn::weighted_sum(ops::add(nothing, weight(graph, "moved", 0)), batch["weights"]);
  }
};

struct CounterRuns : test::DeckRun {
  CounterRuns()
      : DeckRun(
            "[model]\nname = counter\n[data]\nsource = arrays\npath = zeros.h5\nbatch = 12\n"
            "validation_fraction = 0\n[optim]\nname = sgd\nmomentum = 0\nlr = 1\n"
            "[train]\ndtype = f64\n") {
    add_model("counter", [] { return std::make_unique<Counter>(); });
    test::Writer writer(path("zeros.h5"));
    writer.add("/train/x", {12}, std::vector<float>(12), io::ElementType::Kind::floating);
    writer.write();
  }
  /// Each push was computed with the weights of as many updates as its staleness says.
  void check(const std::string& name, std::size_t steps, bool is_stale) const {
    const auto loss = values(name, "loss");
    auto staleness = values(name, "staleness");
    if (!is_stale) staleness.assign(steps, 0);
    REQUIRE(loss.size() == steps);
    REQUIRE(staleness.size() == steps);
    for (std::size_t i = 0; i < steps; ++i)
      CHECK(std::abs(loss[i] + static_cast<double>(i) - staleness[i]) < 1e-9);
  }
};

/// Numbers that lines of metrics.jsonl have behind a key, "[1, 2]".
std::vector<double> list_of(const test::DeckRun& deck, const std::string& name,
                            const std::string& key) {
  std::ifstream in(deck.path(name + "/metrics.jsonl"));
  std::vector<double> values;
  for (std::string line; std::getline(in, line);) {
    const auto at = line.find("\"" + key + "\": [");
    if (at == std::string::npos) continue;
    std::istringstream list(line.substr(line.find('[', at) + 1));
    values.clear();
    for (double value = 0; list >> value;) {
      values.push_back(value);
      if (list.get() != ',') break;
    }
  }
  return values;
}

}  // namespace

TEST_CASE("With a staleness bound of 0 the numbers are those of a synchronous run") {
  const test::DeckRun deck(kDeck);
  write_text(deck);
  const auto optimizer = GENERATE(as<std::string>(), "adam", "adafactor");
  const std::vector<std::string> common{"--optim.name=" + optimizer, "--optim.factored_size=4"};
  deck.train("sync", "batch:1,model:1", common);
  struct Case {
    std::int64_t servers, ranks;
    const char* mesh;
    const char* micro_batches;
    const char* shard;
  };
  for (const Case& it :
       {Case{1, 2, "batch:1,model:1", "1", ""}, Case{2, 5, "batch:1,model:1", "1", ""},
        Case{3, 5, "batch:1,model:1", "2", ""}, Case{2, 6, "batch:2,model:1", "1", "batch"},
        Case{1, 9, "batch:2,model:2", "3", ""}, Case{2, 8, "batch:3,model:1", "2", ""}}) {
    INFO(optimizer << ", " << it.servers << " servers of " << it.ranks << " ranks, groups of "
                   << it.mesh);
    auto settings = common;
    for (const std::string& setting :
         {concat("--replicate.servers=", it.servers), std::string("--replicate.staleness=0"),
          concat("--train.micro_batches=", it.micro_batches), concat("--optim.shard=", it.shard)})
      settings.push_back(setting);
    deck.train_async("async", it.ranks, it.mesh, settings);
    for (const char* key :
         {"loss", "grad_norm", "lr", "tokens", "epoch", "validation_loss", "validation_tokens"})
      CHECK(deck.difference("sync", "async", key) < 1e-9);
    CHECK(list_of(deck, "async", "staleness_counts") == std::vector<double>{8});
  }
}

TEST_CASE("Running statistics ride on pushes") {
  const test::DeckRun deck(R"(
[model]
name = resnet
blocks = 1
height = 5
width = 4
channels = 2
filters = 3
stem = small
classes = 4
[data]
source = random
random_tokens = 60
batch = 6
validation_fraction = 0.2
[train]
steps = 6
dtype = f64
[eval]
every = 3
[layout]
rules = batch:batch
)");
  const std::vector<const char*> keys{"loss", "grad_norm", "validation_loss"};
  deck.train("sync", "batch:1");
  deck.train_async("async", 4, "batch:2", {"--replicate.servers=2"});
  for (const char* key : keys) CHECK(deck.difference("sync", "async", key) < 1e-9);
  // Groups that share a batch have statistics each of its own part of it, and move the running ones
  // by their mean.
  deck.train("apart", "batch:1", {"--model.norm_groups=2"});
  deck.train_async("shared", 3, "batch:1", {"--replicate.staleness=0"});
  for (const char* key : keys) CHECK(deck.difference("apart", "shared", key) < 1e-9);
  CHECK(deck.difference("sync", "shared", "validation_loss") > 1e-6);
}

TEST_CASE("A single group has the numbers of a synchronous run whatever the bound") {
  const test::DeckRun deck(kDeck);
  write_text(deck);
  deck.train("sync", "batch:2,model:1");
  deck.train_async("async", 4, "batch:2,model:1", {"--replicate.servers=2"});
  for (const char* key : {"loss", "grad_norm", "tokens", "epoch", "validation_loss"})
    CHECK(deck.difference("sync", "async", key) < 1e-9);
}

TEST_CASE("Each push is one update, also if its messages come twice") {
  const test::DeckRun deck(kDeck);
  write_text(deck);
  const auto bound = GENERATE(as<std::string>(), "-1", "0", "1");
  const std::vector<std::string> settings{"--train.steps=20", "--replicate.staleness=" + bound};
  deck.train_async("once", 4, "batch:1,model:1", settings);
  const auto mailbox = std::make_shared<Stutter>();
  deck.train_async("twice", 4, "batch:1,model:1", settings, {.mailbox = mailbox});
  CHECK(mailbox->repeated > 30);
  for (const char* key : {"loss", "grad_norm", "tokens"})
    CHECK(deck.difference("once", "twice", key) == 0);
  CHECK(deck.values("once", "loss").size() == 20);
  CHECK(sum(list_of(deck, "once", "group_updates")) == (bound == "0" ? 60 : 20));
  CHECK(sum(list_of(deck, "once", "staleness_counts")) == 20);
  // Three groups that take turns: each finds two updates of the others.
  if (bound != "0") CHECK(std::ranges::max(deck.values("once", "staleness")) == 2);
}

TEST_CASE("A slow group does not keep the others, unless they run too far ahead") {
  const test::DeckRun deck(kDeck);
  write_text(deck);
  const auto bound = GENERATE(-1, 2);
  std::int64_t turn = 0;
  train::AsyncHooks hooks;
  hooks.is_stalled = [&](std::int64_t group) { return group == 0 && ++turn % 10 != 0; };
  deck.train_async("slow", 4, "batch:1,model:1",
                   {"--train.steps=60", concat("--replicate.staleness=", bound)}, hooks);
  const auto updates = list_of(deck, "slow", "group_updates");
  REQUIRE(updates.size() == 3);
  CHECK(sum(updates) == 60);
  CHECK(updates[0] > 0);
  if (bound < 0) {
    CHECK(updates[1] > 4 * updates[0]);
    CHECK(list_of(deck, "slow", "staleness_counts").size() > 10);
  } else {
    CHECK(updates[1] <= updates[0] + bound + 1);
    CHECK(static_cast<int>(list_of(deck, "slow", "staleness_counts").size()) <=
          2 * (2 * bound + 1) + 1);
  }
}

TEST_CASE("A lost group is left behind, and taken in again when it wakes") {
  const test::DeckRun deck(kDeck);
  write_text(deck);
  const auto bound = GENERATE(as<std::string>(), "-1", "0", "1");
  const bool wakes = GENERATE(false, true);
  INFO("bound " << bound << (wakes ? ", wakes" : ""));
  double seconds = 0;
  std::int64_t turns = 0;
  train::AsyncHooks hooks;
  hooks.now = [&] { return seconds += 0.01; };
  hooks.is_stalled = [&](std::int64_t group) {
    if (group != 1) return false;
    ++turns;
    return turns > 14 && (!wakes || seconds < 12);
  };
  const std::string text = deck.train_async(
      "lost", 4, "batch:1,model:1",
      {"--train.steps=130", "--replicate.dead_after=5", "--replicate.staleness=" + bound}, hooks);
  CHECK(text.find("warning: group 1 (rank 2) has been silent for 5 s") != std::string::npos);
  CHECK((text.find("group 1 (rank 2) is back") != std::string::npos) == wakes);
  CHECK(deck.values("lost", "loss").size() == 130);
  const auto updates = list_of(deck, "lost", "group_updates");
  CHECK(sum(list_of(deck, "lost", "staleness_counts")) == 130);
  if (bound != "0") CHECK(sum(updates) == 130);
  CHECK(updates[1] < updates[0]);
  CHECK(updates[1] > (wakes ? 10 : 1));
}

TEST_CASE("The weights have moved once for each update, also where a group was lost") {
  const CounterRuns deck;
  const auto bound = GENERATE(as<std::string>(), "-1", "0", "1");
  double seconds = 0;
  std::int64_t turns = 0;
  train::AsyncHooks hooks;
  hooks.now = [&] { return seconds += 0.01; };
  hooks.is_stalled = [&](std::int64_t group) {
    if (group != 1) return false;
    return ++turns > 14 && seconds < 12;
  };
  const std::vector<std::string> settings{"--train.steps=300", "--replicate.servers=2",
                                          "--replicate.dead_after=5",
                                          "--replicate.staleness=" + bound};
  const std::string text = deck.train_async("lost", 5, "batch:1", settings, hooks);
  CHECK(text.find("group 1 (rank 3) has been silent") != std::string::npos);
  deck.check("lost", 300, bound != "0");
}

TEST_CASE("A checkpoint that is written while groups compute is of one moment") {
  const CounterRuns deck;
  const auto bound = GENERATE(as<std::string>(), "-1", "0", "2");
  const auto go = [&](const std::vector<std::string>& more) {
    std::int64_t turn = 0;
    train::AsyncHooks hooks;
    hooks.is_stalled = [&](std::int64_t group) { return group == 1 && ++turn % 4 != 0; };
    std::vector<std::string> settings{"--checkpoint.every=7", "--checkpoint.keep=0",
                                      "--replicate.staleness=" + bound};
    settings.insert(settings.end(), more.begin(), more.end());
    deck.train_async("run", 4, "batch:1", settings, hooks);
  };
  go({"--train.steps=40"});
  // As if the job had been killed behind step 21, with pushes of all groups under way.
  for (const char* step : {"28", "35", "40"})
    CHECK(std::filesystem::remove(deck.path(concat("run/checkpoints/step_000000", step, ".h5"))));
  go({"--train.steps=60", "--train.resume=auto"});
  deck.check("run", 60, bound != "0");
  if (bound == "0") return;
  const auto groups = deck.values("run", "group");
  const auto updates = list_of(deck, "run", "group_updates");
  REQUIRE(updates.size() == 3);
  for (std::size_t g = 0; g < updates.size(); ++g)
    CHECK(updates[g] == std::ranges::count(groups, static_cast<double>(g)));
}

TEST_CASE("What a group pushed too late is not taken for what it pushes next") {
  const test::DeckRun deck(kDeck);
  write_text(deck);
  for (const bool is_late : {false, true}) {
    double seconds = 0;
    std::int64_t turns = 0;
    train::AsyncHooks hooks;
    hooks.mailbox = std::make_shared<Late>(is_late);
    hooks.now = [&] { return seconds += 0.01; };
    hooks.is_stalled = [&](std::int64_t group) {
      return group == 1 && ++turns > 14 && turns < 450;  // it has its order, and no weights yet
    };
    const std::string text =
        deck.train_async(is_late ? "late" : "prompt", 5, "batch:1,model:1",
                         {"--train.steps=130", "--eval.every=0", "--replicate.dead_after=5",
                          "--replicate.staleness=0", "--replicate.servers=2"},
                         hooks);
    CHECK(text.find("group 1 (rank 3) is back") != std::string::npos);
  }
  for (const char* key : {"loss", "grad_norm"})
    CHECK(deck.difference("prompt", "late", key) < 1e-9);
}

TEST_CASE("A group is lost with one of its ranks, and the others leave it") {
  const test::DeckRun deck(kDeck);
  write_text(deck);
  const auto mailbox = std::make_shared<Lively>();
  double seconds = 0;
  train::AsyncHooks hooks;
  hooks.mailbox = mailbox;
  hooks.now = [&] { return seconds += 0.01; };
  hooks.is_stalled = [&](std::int64_t group) { return group == 1; };
  const std::string text = deck.train_async(
      "broken", 5, "batch:2,model:1", {"--train.steps=40", "--replicate.dead_after=5"}, hooks);
  CHECK(text.find("rank 4 of group 1 (ranks 3-4) has been silent for 5 s") != std::string::npos);
  CHECK(text.find("the other ranks of group 1 (ranks 3-4) leave") != std::string::npos);
  CHECK(list_of(deck, "broken", "group_updates") == std::vector<double>{40, 0});
  const auto told = mailbox->receive(3);
  REQUIRE(told);
  CHECK(told->tag == train::kLost);
  CHECK(train::Reader(told->bytes).get<int>() == 4);
}

TEST_CASE("Either mode goes on from the other's checkpoint") {
  const test::DeckRun deck(kDeck);
  write_text(deck);
  deck.train("sync", "batch:1,model:1", {"--train.steps=9", "--optim.schedule_steps=9"});
  const std::vector<std::string> more{"--optim.schedule_steps=9", "--train.resume=auto"};
  const auto with = [&](std::vector<std::string> settings, bool resumes) {
    settings.insert(settings.end(), more.begin(), resumes ? more.end() : more.begin() + 1);
    return settings;
  };
  const std::vector<std::string> bound{"--replicate.staleness=0", "--replicate.servers=2"};
  auto first = with({"--train.steps=3"}, false), last = with({"--train.steps=9"}, true);
  auto middle = with({"--train.steps=6"}, true);
  middle.insert(middle.end(), bound.begin(), bound.end());
  deck.train("mixed", "batch:1,model:1", first);
  deck.train_async("mixed", 5, "batch:1,model:1", middle);
  deck.train("mixed", "batch:1,model:2", last);
  for (const char* key : {"loss", "grad_norm", "tokens", "epoch"})
    CHECK(deck.difference("sync", "mixed", key) < 1e-9);

  // Counts of groups are of no use behind synchronous steps.
  const auto six = with({"--train.steps=6"}, true);
  deck.train_async("single", 2, "batch:1,model:1", first);
  deck.train("single", "batch:1,model:1", six);
  deck.train_async("single", 2, "batch:1,model:1", last);
  for (const char* key : {"loss", "grad_norm", "tokens", "epoch"})
    CHECK(deck.difference("sync", "single", key) < 1e-9);

  // Without a bound: counts and places in the data go on where they were.
  deck.train_async("free", 4, "batch:1,model:1", with({"--train.steps=6"}, false));
  deck.train_async("free", 4, "batch:1,model:1", with({"--train.steps=9"}, true));
  CHECK(deck.values("free", "loss").size() == 9);
  CHECK(list_of(deck, "free", "group_updates") == std::vector<double>{3, 3, 3});
  CHECK(deck.values("free", "tokens").back() == deck.values("sync", "tokens").back());
  // With another number of groups they begin at the batch behind all that were taken.
  deck.train_async("free", 3, "batch:1,model:1", with({"--train.steps=12"}, true));
  CHECK(list_of(deck, "free", "group_updates") == std::vector<double>{2, 1});
}
