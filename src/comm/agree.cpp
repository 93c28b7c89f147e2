// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/comm/agree.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"

namespace tessera::comm {

void agree(const World& world, const Status& status) {
  const auto kinds = world.gather_integer(static_cast<std::int64_t>(status.kind));
  const auto failed = std::ranges::find_if(kinds, [](std::int64_t kind) { return kind != 0; });
  if (failed == kinds.end()) return;
  const int rank = static_cast<int>(failed - kinds.begin());
  Status agreed{static_cast<Status::Kind>(*failed), world.broadcast_text(status.message, rank)};
  if (agreed.kind == Status::Kind::error && world.size() > 1)
    agreed.message = concat("rank ", rank, ": ", agreed.message);
  throw_unless_ok(agreed);
}

std::vector<int> ranks_that_differ(const World& world, std::uint64_t value) {
  const auto values = world.gather_integer(static_cast<std::int64_t>(value));
  std::vector<int> ranks;
  for (std::size_t r = 1; r < values.size(); ++r)
    if (values[r] != values[0]) ranks.push_back(static_cast<int>(r));
  return ranks;
}

void check_same(const World& world, std::uint64_t hash, const std::string& what,
                const std::string& cure) {
  const auto ranks = ranks_that_differ(world, hash);
  check_user(ranks.empty(), what, " differs on rank", ranks.size() == 1 ? " " : "s ",
             format_ranks(ranks), " from rank 0: ", cure);
}

std::string format_ranks(const std::vector<int>& ranks) {
  constexpr std::size_t kShown = 8;
  std::vector<std::string> pieces;
  std::size_t i = 0;
  while (i < ranks.size() && pieces.size() < kShown) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    // Two neighbours read better as two numbers than as a range.
    if (last == i + 1) last = i;
    pieces.push_back(last == i ? std::to_string(ranks[i]) : concat(ranks[i], "-", ranks[last]));
    i = last + 1;
  }
  const std::string rest = i < ranks.size() ? concat(" and ", ranks.size() - i, " more") : "";
  return join(pieces, ", ") + rest;
}

}  // namespace tessera::comm
