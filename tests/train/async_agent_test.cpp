// SPDX-License-Identifier: BSD-3-Clause
// Agents that learn asynchronously: each group lives through experience of its own.
#include <algorithm>
#include <filesystem>

#include "train/agent_deck.hpp"
#include "train/deck_run.hpp"

using namespace tessera;

TEST_CASE(
    "A single group's agent lives as in a synchronous run, its target networks on the servers") {
  const test::DeckRun deck(test::kAgentDeck);
  deck.train("sync", "batch:2,model:1");
  deck.train_async("async", 4, "batch:2,model:1", {"--replicate.servers=2"});
  for (const char* key : {"loss", "grad_norm", "critic/loss", "policy/loss", "transitions",
                          "environment_steps", "validation_reward"}) {
    INFO(key);
    CHECK(deck.difference("sync", "async", key) < 1e-9);
  }
}

TEST_CASE("An agent goes on from either mode's checkpoint with what it lived through") {
  const test::DeckRun deck(test::kAgentDeck);
  const std::vector<std::string> resume{"--train.resume=auto"};
  deck.train("whole", "batch:2,model:1");
  deck.train_async("alone", 4, "batch:2,model:1", {"--train.steps=10", "--replicate.servers=2"});
  const std::string text = deck.train_async("alone", 3, "batch:1,model:2", resume);
  CHECK(text.find("experience of 1 of 1 groups goes on") != std::string::npos);
  deck.train("mixed", "batch:2,model:1", {"--train.steps=5"});
  deck.train_async("mixed", 3, "batch:2,model:1", {"--train.resume=auto", "--train.steps=12"});
  CHECK(deck.train("mixed", "batch:1,model:1", resume).find("that of the first group goes on") !=
        std::string::npos);
  for (const char* run : {"alone", "mixed"})
    for (const char* key :
         {"loss", "grad_norm", "critic/loss", "policy/loss", "transitions", "environment_steps"}) {
      INFO(run << " " << key);
      CHECK(deck.difference("whole", run, key) < 1e-9);
    }
}

TEST_CASE("Asynchronous agents repeat themselves bitwise over a stop") {
  const test::DeckRun deck(test::kAgentDeck);
  deck.train_async("whole", 2, "batch:1,model:1", {});
  deck.train_async("parts", 2, "batch:1,model:1", {"--train.steps=10"});
  deck.train_async("parts", 2, "batch:1,model:1", {"--train.resume=auto"});
  for (const char* key : {"loss", "grad_norm", "critic/loss", "environment_steps"})
    CHECK(deck.difference("whole", "parts", key) == 0);
}

TEST_CASE("Groups of agents go on with their own experience, new ones with that of others") {
  const test::DeckRun deck(test::kAgentDeck);
  const auto steps = [&] { return deck.values("run", "environment_steps").back(); };
  deck.train_async("run", 3, "batch:1,model:1", {"--train.steps=7"});
  const double before = steps();
  CHECK(before == 2 * 60 + (4 - 1 + 3 - 1) * 10);
  std::string text =
      deck.train_async("run", 3, "batch:1,model:1", {"--train.resume=auto", "--train.steps=15"});
  CHECK(text.find("experience of 2 of 2 groups goes on") != std::string::npos);
  CHECK(steps() <= before + 9 * 10);
  CHECK(steps() >= before + 8 * 10);
  text = deck.train_async("run", 5, "batch:1,model:1", {"--train.resume=auto", "--train.steps=19"});
  CHECK(text.find("experience of 4 of 4 groups goes on") != std::string::npos);
  std::filesystem::remove_all(deck.path("run/checkpoints/group_0"));
  text = deck.train("run", "batch:1,model:1", {"--train.resume=auto", "--train.steps=20"});
  CHECK(text.find("no experience beside the checkpoint") != std::string::npos);
  CHECK(steps() == 60);
}

TEST_CASE("Groups of agents add up their steps, and see different things") {
  const test::DeckRun deck(test::kAgentDeck);
  deck.train_async("two", 3, "batch:1,model:1", {"--replicate.staleness=1"});
  const auto losses = deck.values("two", "critic/loss"), groups = deck.values("two", "group");
  REQUIRE(losses.size() == 20);
  CHECK(std::ranges::count(groups, 0) == 10);
  // Both begin from the same weights; their environments differ.
  CHECK(losses[0] != losses[1]);
  CHECK(deck.values("two", "environment_steps").back() == 2 * (60 + 9 * 10));
  CHECK(deck.values("two", "transitions").back() == 20 * 12);
  CHECK(deck.values("two", "validation_reward").size() == 2);
}
