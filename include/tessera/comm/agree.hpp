// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/status.hpp"
#include "tessera/comm/world.hpp"

namespace tessera::comm {

/// Ends a phase that may fail on one process alone. If any failed, all throw the lowest failing
/// rank's message with its type (UserError or Error); an Error of one of several ranks names that
/// rank. Returns if all are well.
void agree(const World& world, const Status& status);

/// Runs `phase` on all processes and agrees on how it ended.
template <class Phase>
void agree_on(const World& world, Phase&& phase) {
  agree(world, attempt(std::forward<Phase>(phase)));
}

/// Ranks whose value is not rank 0's; empty if all agree.
std::vector<int> ranks_that_differ(const World& world, std::uint64_t value);
/// UserError on all processes if a hash differs: "`what` differs on ranks 2, 3 from rank 0:
/// `cure`".
void check_same(const World& world, std::uint64_t hash, const std::string& what,
                const std::string& cure);

/// "1, 2, 5-9 and 13 more": short for any number of ranks.
std::string format_ranks(const std::vector<int>& ranks);

}  // namespace tessera::comm
