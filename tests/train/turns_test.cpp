// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/turns.hpp"

#include <random>

#include "support/catch.hpp"

using namespace tessera;
using train::Turns;
using Kind = Turns::Action::Kind;

namespace {

Turns make(int workers, std::int64_t staleness, std::int64_t steps, double dead_after = 10) {
  return {{workers, staleness, steps, 1, dead_after},
          0,
          std::vector<std::int64_t>(static_cast<std::size_t>(workers), 0),
          0};
}

/// The next action must be a grant to this worker.
Turns::Grant granted(Turns& turns, int worker) {
  const auto action = turns.next();
  REQUIRE(action.kind == Kind::grant);
  REQUIRE(action.workers == std::vector<int>{worker});
  return action.grant;
}

}  // namespace

TEST_CASE("each push is one update, and only once") {
  Turns turns = make(2, -1, 100);
  turns.ask(0);
  turns.ask(1);
  CHECK(granted(turns, 0).version == 0);
  CHECK(granted(turns, 1).sequence == 0);
  CHECK(turns.next().kind == Kind::none);
  CHECK(turns.push(1, 0));
  CHECK_FALSE(turns.push(1, 0));
  auto update = turns.next();
  REQUIRE(update.kind == Kind::apply);
  CHECK(update.workers == std::vector<int>{1});
  CHECK(update.scale == 1);
  turns.commit(update.workers);
  CHECK_FALSE(turns.push(1, 0));
  turns.ask(1);
  CHECK_FALSE(turns.push(1, 0));  // now its next number counts
  CHECK(granted(turns, 1).sequence == 1);
  CHECK_FALSE(turns.push(1, 0));
  CHECK(turns.push(0, 0));
  CHECK(turns.staleness_of(0) == 1);
  turns.commit({0});
  CHECK(turns.version() == 2);
  CHECK(turns.applied() == std::vector<std::int64_t>{1, 1});
}

TEST_CASE("waiting pushes are taken in turn") {
  Turns turns = make(3, -1, 100);
  for (int w = 0; w < 3; ++w) turns.ask(w);
  for (int w = 0; w < 3; ++w) granted(turns, w);
  for (int w : {2, 0, 1}) CHECK(turns.push(w, 0));
  std::vector<int> order;
  for (int i = 0; i < 3; ++i) {
    const auto update = turns.next();
    REQUIRE(update.kind == Kind::apply);
    order.push_back(update.workers[0]);
    turns.commit(update.workers);
  }
  CHECK(order == std::vector<int>{0, 1, 2});
}

TEST_CASE("a bound of 0 deals out shares and adds all of them") {
  Turns turns = make(3, 0, 100);
  turns.ask(2);
  turns.ask(0);
  CHECK(turns.next().kind == Kind::none);  // not all are ready
  turns.ask(1);
  for (int w = 0; w < 3; ++w) {
    const auto grant = granted(turns, w);
    CHECK(grant.share == w);
    CHECK(grant.shares == 3);
  }
  CHECK(turns.push(2, 0));
  CHECK(turns.push(0, 0));
  turns.ask(0);
  turns.ask(2);
  CHECK(turns.next().kind == Kind::none);
  CHECK(turns.push(1, 0));
  const auto update = turns.next();
  REQUIRE(update.kind == Kind::apply);
  CHECK(update.workers == std::vector<int>{0, 1, 2});
  CHECK(turns.staleness_of(2) == 0);
  turns.commit(update.workers);
  CHECK(turns.version() == 1);
  CHECK(turns.next().kind == Kind::none);
  turns.ask(1);
  CHECK(granted(turns, 0).version == 1);
}

TEST_CASE("no share is added before all are dealt out") {
  Turns turns = make(3, 0, 100);
  for (int w = 0; w < 3; ++w) turns.ask(w);
  granted(turns, 0);
  CHECK(turns.push(0, 0));  // it is fast, and asks for more
  turns.ask(0);
  CHECK(granted(turns, 1).share == 1);
  CHECK(granted(turns, 2).share == 2);
  for (int w : {1, 2}) CHECK(turns.push(w, 0));
  const auto update = turns.next();
  REQUIRE(update.kind == Kind::apply);
  CHECK(update.workers == std::vector<int>{0, 1, 2});
  CHECK(update.scale == 1);
}

TEST_CASE("a lost worker's share is made up for, and its late push is not taken") {
  Turns turns = make(3, 0, 100);
  for (int w = 0; w < 3; ++w) turns.ask(w);
  for (int w = 0; w < 3; ++w) granted(turns, w);
  for (int w : {0, 2}) {
    CHECK(turns.push(w, 0));
    turns.ask(w);
    turns.heard(w, 9);
  }
  CHECK(turns.lose_silent(10).empty());
  CHECK(turns.lose_silent(11) == std::vector<int>{1});
  const auto update = turns.next();
  REQUIRE(update.kind == Kind::apply);
  CHECK(update.workers == std::vector<int>{0, 2});
  CHECK(update.scale == 1.5);
  turns.commit(update.workers);
  CHECK(granted(turns, 0).shares == 2);
  CHECK(granted(turns, 2).share == 1);
  // It wakes in the middle of the next round: too late for its push, early enough for the one
  // after.
  CHECK(turns.heard(1, 12));
  CHECK_FALSE(turns.push(1, 0));
  turns.ask(1);
  CHECK(turns.next().kind == Kind::none);
  for (int w : {0, 2}) {
    CHECK(turns.push(w, 1));
    turns.ask(w);
  }
  turns.commit(turns.next().workers);
  CHECK(granted(turns, 0).shares == 3);
  CHECK(turns.applied() == std::vector<std::int64_t>{2, 0, 2});
}

TEST_CASE("a round whose workers are all lost begins anew with those that come back") {
  Turns turns = make(2, 0, 100);
  turns.ask(0);
  turns.ask(1);
  granted(turns, 0);
  granted(turns, 1);
  CHECK(turns.lose_silent(11).size() == 2);
  CHECK(turns.next().kind == Kind::none);
  CHECK(turns.alive() == 0);
  turns.heard(1, 12);
  turns.ask(1);
  const auto grant = granted(turns, 1);
  CHECK(grant.shares == 1);
  CHECK(grant.version == 0);
}

TEST_CASE("what a lost worker asked for it gets when it is back") {
  for (const std::int64_t bound : {-1, 0}) {
    Turns turns = make(2, bound, 100);
    turns.ask(0);
    turns.ask(1);
    turns.heard(0, 9);
    CHECK(turns.lose_silent(11) == std::vector<int>{1});
    granted(turns, 0);
    CHECK(turns.next().kind == Kind::none);
    CHECK(turns.heard(1, 12));
    if (bound == 0) {
      CHECK(turns.push(0, 0));
      turns.ask(0);
      turns.commit(turns.next().workers);
      granted(turns, 0);
    }
    granted(turns, 1);
  }
}

TEST_CASE("nobody runs further ahead than the bound") {
  for (const std::int64_t bound : {1, 3}) {
    constexpr int kWorkers = 3;
    Turns turns = make(kWorkers, bound, 400);
    for (int w = 0; w < kWorkers; ++w) turns.ask(w);
    std::mt19937 random(static_cast<unsigned>(bound));
    std::vector<std::optional<Turns::Grant>> work(kWorkers);
    std::int64_t stalest = 0, furthest = 0;
    while (turns.version() < 400) {
      for (auto action = turns.next(); action.kind != Kind::none; action = turns.next()) {
        if (action.kind == Kind::grant) {
          work[static_cast<std::size_t>(action.workers[0])] = action.grant;
          continue;
        }
        stalest = std::max(stalest, turns.staleness_of(action.workers[0]));
        turns.commit(action.workers);
        const auto [least, most] = std::ranges::minmax(turns.applied());
        furthest = std::max(furthest, most - least);
      }
      if (turns.version() >= 400) break;
      // Worker 0 is slow; somebody always has work, or all would wait for ever.
      std::vector<int> busy;
      for (int w = 0; w < kWorkers; ++w)
        if (work[static_cast<std::size_t>(w)]) busy.insert(busy.end(), w == 0 ? 1 : 5, w);
      REQUIRE(!busy.empty());
      const int w = busy[random() % busy.size()];
      CHECK(turns.push(w, work[static_cast<std::size_t>(w)]->sequence));
      work[static_cast<std::size_t>(w)].reset();
      turns.ask(w);
    }
    CHECK(furthest == bound + 1);
    CHECK(stalest <= (kWorkers - 1) * (2 * bound + 1));
    CHECK(stalest > 0);
  }
}

TEST_CASE("an evaluation is one worker's, and nothing ends before it") {
  Turns turns = make(2, -1, 1);
  turns.ask(0);
  granted(turns, 0);
  CHECK(turns.push(0, 0));
  turns.ask(0);
  turns.commit(turns.next().workers);
  turns.want_evaluation();
  turns.ask(1);
  CHECK_FALSE(turns.is_evaluating());
  CHECK(granted(turns, 1).evaluate);
  CHECK(turns.is_evaluating());
  CHECK(turns.next().kind == Kind::none);
  // Its worker dies: another one does it.
  turns.heard(0, 20);
  CHECK(turns.lose_silent(20) == std::vector<int>{1});
  CHECK_FALSE(turns.is_evaluating());
  CHECK(granted(turns, 0).evaluate);
  turns.evaluated(1);
  CHECK(turns.evaluation_due());
  turns.evaluated(0);
  CHECK_FALSE(turns.evaluation_due());
  turns.ask(0);
  CHECK_FALSE(turns.is_over());
  CHECK(granted(turns, 0).stop);
  CHECK(turns.is_over());
}

TEST_CASE("nobody is let go before all have come or are lost") {
  Turns turns = make(3, -1, 10);
  for (int worker : {0, 1, 2}) turns.ask(worker);
  for (int worker : {0, 1, 2}) granted(turns, worker);
  turns.stop(true);
  for (int worker : {0, 1}) CHECK(turns.push(worker, 0));
  for (int worker : {0, 1}) turns.ask(worker);
  CHECK(turns.next().kind == Kind::none);
  for (int worker : {0, 1}) turns.heard(worker, 20);
  CHECK(turns.lose_silent(20) == std::vector<int>{2});
  for (int worker : {0, 1}) CHECK(granted(turns, worker).stop);
  CHECK(turns.is_over());
  // Who was told goes silent and is no loss.
  CHECK(turns.lose_silent(60).size() == 2);
  CHECK(turns.misses_workers());
  turns.heard(2, 60);
  CHECK_FALSE(turns.misses_workers());
}

TEST_CASE("a push that some server never got is not applied, and its worker goes on") {
  Turns turns = make(2, -1, 10);
  turns.ask(0);
  granted(turns, 0);
  CHECK(turns.push(0, 0));
  turns.reject(0);
  CHECK(turns.next().kind == Kind::none);
  turns.ask(0);
  CHECK(granted(turns, 0).sequence == 0);
  CHECK(turns.version() == 0);
}

TEST_CASE("a step of several pushes ends with the last of them") {
  for (const std::int64_t bound : {-1, 0}) {
    Turns turns({2, bound, 2, 3, 10}, 1, {0, 0}, 0);
    CHECK(turns.version() == 3);
    std::vector<std::int64_t> positions;
    while (turns.step() < 2) {
      turns.ask(0);
      turns.ask(1);
      std::vector<int> granted;
      for (auto action = turns.next(); action.kind == Kind::grant; action = turns.next()) {
        granted.push_back(action.workers[0]);
        if (granted.back() == 0) positions.push_back(action.grant.position);
      }
      for (int w : granted) CHECK(turns.push(w, turns.grant_of(w).sequence));
      for (auto action = turns.next(); action.kind == Kind::apply; action = turns.next())
        turns.commit(action.workers);
    }
    CHECK(positions == std::vector<std::int64_t>{0, 1, 2});
    CHECK(turns.version() == (bound == 0 ? 6 : 8));
    CHECK(turns.step() == 2);
  }
}

TEST_CASE("nobody waits for what a worker missed while it was lost") {
  Turns turns = make(2, 1, 100, 5);
  for (int round = 0; round < 10; ++round) {
    turns.heard(0, round);
    turns.lose_silent(round);
    turns.ask(0);
    const auto action = turns.next();
    if (action.kind != Kind::grant) continue;  // two ahead of the other one
    CHECK(turns.push(0, action.grant.sequence));
    turns.commit(turns.next().workers);
  }
  CHECK(turns.is_lost(1));
  const auto before = turns.applied()[0];
  CHECK(before == 2 + 4);
  CHECK(turns.heard(1, 10));
  turns.ask(0);
  CHECK(granted(turns, 0).sequence == before);
}
