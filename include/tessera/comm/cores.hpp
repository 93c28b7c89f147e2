// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera::comm {

/// Cores that this process may run on (its cpuset), ascending.
std::vector<int> allowed_cores();
/// "0-3,8": ranges of ascending numbers.
std::string format_ranges(const std::vector<int>& numbers);
/// Inverse of format_ranges.
std::vector<int> parse_ranges(std::string_view text);

/// What one rank may run on.
struct RankCores {
  std::string host;
  std::vector<int> cores;
  int threads = 1;           ///< that it computes with
  std::string binding = "";  ///< value of OMP_PROC_BIND
  bool operator==(const RankCores&) const = default;
};

/// One line for each run of ranks with equal host, cores and threads.
std::vector<std::string> describe_cores(const std::vector<RankCores>& ranks);
/// Faults that cost speed: more threads than cores on a node or in a rank, ranks pinned onto the
/// same cores, OpenMP about to pin them so. Ranks that share one cpuset with a core for every
/// thread are well.
std::vector<std::string> core_warnings(const std::vector<RankCores>& ranks);

}  // namespace tessera::comm
