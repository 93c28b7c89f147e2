// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/comm/world.hpp"

#include <cmath>

#include "support/catch.hpp"
#include "support/world.hpp"
#include "tessera/base/error.hpp"
#include "tessera/comm/agree.hpp"

using namespace tessera;

namespace {

/// The message that agree throws on this rank, with its kind in front.
std::string agreed(const comm::World& world, const Status& status) {
  try {
    comm::agree(world, status);
    return "ok";
  } catch (const UserError& error) {
    return std::string("user: ") + error.what();
  } catch (const Error& error) {
    return std::string("error: ") + error.what();
  }
}

bool same_on_all(const std::string& text) {
  for (const auto& other : test::world().gather_text(text))
    if (other != text) return false;
  return true;
}

}  // namespace

TEST_CASE("texts of unlike lengths reach all ranks") {
  const auto& world = test::world();
  for (int root = 0; root < world.size(); ++root) {
    const std::string text = "of rank " + std::to_string(root) + std::string(1000, 'x');
    CHECK(world.broadcast_text(world.rank() == root ? text : "other", root) == text);
  }
  CHECK(world.broadcast_text("").empty());
  const auto texts = world.gather_text(std::string(static_cast<std::size_t>(world.rank()), 'y'));
  REQUIRE(texts.size() == static_cast<std::size_t>(world.size()));
  for (std::size_t r = 0; r < texts.size(); ++r) CHECK(texts[r] == std::string(r, 'y'));
  world.barrier();
}

TEST_CASE("sums are in rank order and a NaN is not lost in a maximum") {
  const auto& world = test::world();
  const double mine = world.rank() == 0 ? 1.0 : 1e-16;
  double expected = 1.0;
  for (int r = 1; r < world.size(); ++r) expected += 1e-16;
  CHECK(world.sum({mine, 1.0}) == std::vector<double>{expected, double(world.size())});
  for (int at = 0; at < world.size(); ++at) {
    const auto max = world.max({world.rank() == at ? std::nan("") : 1.0, double(world.rank())});
    CHECK(std::isnan(max[0]));
    CHECK(max[1] == world.size() - 1);
  }
  CHECK(world.sum({}).empty());
}

TEST_CASE("the lowest failing rank's message is thrown by all") {
  const auto& world = test::world();
  CHECK(agreed(world, {}) == "ok");
  const Status user{Status::Kind::user_error, "rank " + std::to_string(world.rank()) + " refuses"};
  const Status error{Status::Kind::error, "rank " + std::to_string(world.rank()) + " breaks"};
  CHECK(agreed(world, user) == "user: rank 0 refuses");
  for (int at = 0; at < world.size(); ++at) {
    const auto who = std::to_string(at);
    CHECK(agreed(world, world.rank() >= at ? user : Status{}) == "user: rank " + who + " refuses");
    const auto text = agreed(world, world.rank() == at ? error : Status{});
    CHECK(same_on_all(text));
    CHECK(text == (world.size() > 1 ? "error: rank " + who + ": rank " + who + " breaks"
                                    : "error: rank 0 breaks"));
  }
  const int last = world.size() - 1;
  CHECK_THROWS_AS(comm::agree_on(world,
                                 [&] {
                                   if (world.rank() == last) throw UserError("no such file");
                                 }),
                  UserError);
}

TEST_CASE("ranks that differ are named") {
  const auto& world = test::world();
  CHECK(comm::ranks_that_differ(world, 7).empty());
  CHECK_NOTHROW(comm::check_same(world, 7, "the deck", "use one"));
  if (world.size() == 1) return;
  const int last = world.size() - 1;
  const std::uint64_t hash = world.rank() == last ? ~std::uint64_t{0} : 7;
  CHECK(comm::ranks_that_differ(world, hash) == std::vector<int>{last});
  try {
    comm::check_same(world, hash, "the deck", "give all ranks one");
    FAIL_CHECK("unlike decks passed");
  } catch (const UserError& error) {
    CHECK(error.what() ==
          "the deck differs on rank " + std::to_string(last) + " from rank 0: give all ranks one");
  }
}
