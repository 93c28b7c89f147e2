// SPDX-License-Identifier: BSD-3-Clause
// Agents that learn asynchronously: each group lives through experience of its own.
#include <algorithm>

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
