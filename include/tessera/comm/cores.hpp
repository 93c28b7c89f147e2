// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

namespace tessera::comm {

/// Cores that this process may run on (its cpuset), ascending.
std::vector<int> allowed_cores();
/// "0-3,8": ranges of ascending numbers.
std::string format_ranges(const std::vector<int>& numbers);

/// What one rank may run on.
struct RankCores {
  std::string host;
  std::vector<int> cores;
  int threads = 1;
};

/// One line for each run of ranks with equal host, cores and threads.
std::vector<std::string> describe_cores(const std::vector<RankCores>& ranks);
/// Faults that cost speed: more ranks than cores on a node, ranks pinned onto the same cores, more
/// threads than cores. Ranks that share one cpuset that has a core for every thread are well.
std::vector<std::string> core_warnings(const std::vector<RankCores>& ranks);

}  // namespace tessera::comm
