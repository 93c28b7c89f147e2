// SPDX-License-Identifier: BSD-3-Clause
// An agent that learns from what it lives through: the same on every mesh, and over stops.
#include <algorithm>
#include <cmath>

#include "tessera/train/phase_runner.hpp"
#include "train/agent_deck.hpp"
#include "train/deck_run.hpp"

using namespace tessera;

namespace {

const std::vector<const char*> kNumbers{"loss",
                                        "grad_norm",
                                        "critic/loss",
                                        "critic/value",
                                        "policy/loss",
                                        "transitions",
                                        "environment_steps",
                                        "validation_reward",
                                        "validation_sparse_reward"};

}  // namespace

TEST_CASE("An agent lives and learns alike on every mesh, whatever the replicas of its batch") {
  const test::DeckRun deck(test::kAgentDeck);
  const std::string text = deck.train("one", "batch:1,model:1");
  CHECK(text.find("pendulum, 5 environments with 3 numbers to see") != std::string::npos);
  CHECK(text.find("step 20  validation reward ") != std::string::npos);
  CHECK(text.find("over 3 episodes") != std::string::npos);
  CHECK(deck.values("one", "environment_steps").back() == 60 + 19 * 10);
  CHECK(deck.values("one", "transitions").back() == 20 * 12);
  for (const char* mesh :
       {"batch:2,model:1", "batch:4,model:1", "batch:1,model:2", "batch:3,model:2"}) {
    INFO(mesh);
    deck.train("many", mesh, {"--train.micro_batches=2"});
    for (const char* key : kNumbers) {
      INFO(key);
      CHECK(deck.difference("one", "many", key) < 1e-9);
    }
  }
}

TEST_CASE("An agent goes on from a checkpoint with replay and environments as they were") {
  const test::DeckRun deck(test::kAgentDeck);
  for (const char* mesh : {"batch:1,model:1", "batch:2,model:2"}) {
    INFO(mesh);
    deck.train("whole", mesh);
    deck.train("parts", mesh, {"--train.steps=10"});
    deck.train("parts", mesh, {"--train.resume=auto"});
    for (const char* key : kNumbers) {
      INFO(key);
      CHECK(deck.difference("whole", "parts", key) == 0);
    }
    deck.train("moved", "batch:3,model:1", {"--train.steps=10"});
    deck.train("moved", mesh, {"--train.resume=auto"});
    for (const char* key : kNumbers) CHECK(deck.difference("whole", "moved", key) < 1e-9);
  }
}

TEST_CASE("What a critic was wrong about is drawn more often") {
  const test::DeckRun deck(test::kAgentDeck);
  const auto settings = deck.settings("open", "batch:2,model:1");
  std::ostringstream out;
  const auto backend = train::simulated_backend(2);
  const auto session = train::open_session(*backend, *settings, out);
  session->executor->initialize(1);
  const auto weights = [&] {
    for (const auto& tensor : session->feeder->saved())
      if (tensor.path == "/env/replay/weights") {
        const auto* from = static_cast<const double*>(tensor.tile(0));
        return std::vector<double>(from, from + tensor.spec.shape.size() - 1);
      }
    return std::vector<double>();
  };
  const train::Fed fed = session->feeder->next();
  for (double weight : weights()) CHECK((weight == 0 || weight == 1));
  train::PhaseRunner critic(*session, session->compiled.task->phases().front());
  critic.begin_step(1);
  critic.run(*fed.batch, 0);
  critic.repeat_micro_batches(*fed.batch);
  const auto priorities = session->executor->fetch("critic/micro", "priority", 0);
  REQUIRE(priorities.size() == 12);
  const auto after = weights();
  for (double priority : priorities) {
    const double wanted = std::pow(priority, 0.6);
    const auto is_it = [&](double weight) { return std::abs(weight - wanted) < 1e-12; };
    CHECK(std::any_of(after.begin(), after.end(), is_it));
  }
  // 60 steps of 5 environments give 12 each, the last two of which are not yet over.
  CHECK(std::count_if(after.begin(), after.end(), [](double weight) { return weight > 0; }) == 50);
}

TEST_CASE("Keys of an agent are checked") {
  const test::DeckRun deck(test::kAgentDeck);
  CHECK_THROWS_WITH(deck.settings("bad", "batch:1,model:1", {"--env.name=pendulun"}),
                    Catch::Contains("env.name") && Catch::Contains("pendulum"));
  CHECK_THROWS_WITH(deck.settings("bad", "batch:1,model:1", {"--env.warmup=14"}),
                    Catch::Contains("env.warmup = 14") && Catch::Contains("at least 15"));
  CHECK_THROWS_WITH(deck.settings("bad", "batch:1,model:1", {"--model.v_max=0"}),
                    Catch::Contains("model.v_max"));
}
