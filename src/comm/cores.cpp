// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/comm/cores.hpp"

#include <sched.h>

#include <algorithm>
#include <map>
#include <set>

#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"
#include "tessera/comm/agree.hpp"

namespace tessera::comm {
namespace {

using CoreSet = std::vector<int>;

std::string text_of_cores(const CoreSet& cores) {
  return (cores.size() == 1 ? "core " : "cores ") + format_ranges(cores);
}

std::string text_of_threads(int threads) {
  return threads == 1 ? "1 thread" : concat(threads, " threads");
}

std::string text_of_ranks(const std::vector<int>& ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + format_ranks(ranks);
}

/// The ranks of one host.
struct Host {
  std::vector<int> ranks;
  CoreSet cores;  // that any of them may use
  int threads = 0;
};

std::map<std::string, Host> by_host(const std::vector<RankCores>& ranks) {
  std::map<std::string, Host> hosts;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    Host& host = hosts[ranks[r].host];
    CoreSet both;
    std::ranges::set_union(host.cores, ranks[r].cores, std::back_inserter(both));
    host.cores = std::move(both);
    host.ranks.push_back(static_cast<int>(r));
    host.threads += ranks[r].threads;
  }
  return hosts;
}

/// Ranks of the host that can't leave `cores`.
std::vector<int> confined_to(const CoreSet& cores, const Host& host,
                             const std::vector<RankCores>& ranks) {
  std::vector<int> confined;
  for (int rank : host.ranks)
    if (std::ranges::includes(cores, ranks[static_cast<std::size_t>(rank)].cores))
      confined.push_back(rank);
  return confined;
}

int threads_of(const std::vector<int>& some, const std::vector<RankCores>& ranks) {
  int threads = 0;
  for (int rank : some) threads += ranks[static_cast<std::size_t>(rank)].threads;
  return threads;
}

void warn_of_binding(const std::string& name, const Host& host, const std::vector<RankCores>& ranks,
                     std::vector<std::string>& warnings) {
  const RankCores& first = ranks[static_cast<std::size_t>(host.ranks[0])];
  if (first.binding.empty() || first.binding == "false" || host.ranks.size() < 2) return;
  for (int rank : host.ranks)
    if (ranks[static_cast<std::size_t>(rank)].cores != first.cores) return;
  warnings.push_back(concat("OMP_PROC_BIND=", first.binding, ", but ", text_of_ranks(host.ranks),
                            " on ", name, " all may use ", text_of_cores(first.cores),
                            ": OpenMP binds the threads of each to the same cores; unset it, or "
                            "give each rank its own cores (mpiexec -bind-to core, srun "
                            "--cpu-bind=cores)"));
}

void warn_of_crowding(const std::string& name, const Host& host,
                      const std::vector<RankCores>& ranks, std::vector<std::string>& warnings) {
  if (host.threads > static_cast<int>(host.cores.size())) {
    const bool one = host.ranks.size() == 1;
    warnings.push_back(concat(text_of_ranks(host.ranks), " on ", name, " compute", one ? "s" : "",
                              " with ", text_of_threads(host.threads), one ? "" : " in all",
                              ", but may use only ", text_of_cores(host.cores),
                              ": they take turns; start fewer ranks or ",
                              "threads, or let them use more cores"));
    return;
  }
  std::set<CoreSet> sets;
  for (int rank : host.ranks) sets.insert(ranks[static_cast<std::size_t>(rank)].cores);
  for (const CoreSet& cores : sets) {
    const auto confined = confined_to(cores, host, ranks);
    const int threads = threads_of(confined, ranks);
    if (threads <= static_cast<int>(cores.size())) continue;
    const bool one = confined.size() == 1;
    warnings.push_back(
        concat(text_of_ranks(confined), " on ", name, one ? " computes with " : " share ",
               one ? text_of_threads(threads) : text_of_cores(cores), one ? " on " : " for ",
               one ? text_of_cores(cores) : text_of_threads(threads),
               ", while the ranks of this node may use ", text_of_cores(host.cores),
               ": give each rank its own cores (mpiexec ",
               "-bind-to core, srun --cpu-bind=cores, no OMP_PROC_BIND)"));
  }
}

}  // namespace

std::vector<int> allowed_cores() {
  std::vector<int> cores;
  // The kernel refuses a mask smaller than its own; machines with more than 1024 cores exist.
  for (int size = 1024; size <= 1 << 20; size *= 2) {
    cpu_set_t* mask = CPU_ALLOC(static_cast<std::size_t>(size));
    const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(size));
    const bool read = sched_getaffinity(0, bytes, mask) == 0;
    for (int core = 0; read && core < size; ++core)
      if (CPU_ISSET_S(static_cast<std::size_t>(core), bytes, mask)) cores.push_back(core);
    CPU_FREE(mask);
    if (read) break;
  }
  return cores;
}

std::string format_ranges(const std::vector<int>& numbers) {
  std::vector<std::string> pieces;
  for (std::size_t i = 0, last = 0; i < numbers.size(); i = last + 1) {
    for (last = i; last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1;) ++last;
    pieces.push_back(last == i ? std::to_string(numbers[i])
                               : concat(numbers[i], "-", numbers[last]));
  }
  return join(pieces, ",");
}

std::vector<int> parse_ranges(std::string_view text) {
  std::vector<int> numbers;
  for (const auto& piece : split(text, ',')) {
    const auto ends = split(piece, '-');
    std::int64_t first = 0, last = 0;
    TESSERA_CHECK(!ends.empty() && ends.size() <= 2 && parse_integer(ends.front(), first) &&
                      parse_integer(ends.back(), last),
                  "'", piece, "' is no range");
    for (std::int64_t i = first; i <= last; ++i) numbers.push_back(static_cast<int>(i));
  }
  return numbers;
}

std::vector<std::string> describe_cores(const std::vector<RankCores>& ranks) {
  std::vector<std::string> lines;
  for (std::size_t first = 0, end = 0; first < ranks.size(); first = end) {
    const RankCores& cores = ranks[first];
    std::vector<int> run;
    for (end = first; end < ranks.size() && ranks[end] == cores; ++end)
      run.push_back(static_cast<int>(end));
    lines.push_back(concat(text_of_ranks(run), " on ", cores.host, ": ", text_of_cores(cores.cores),
                           ", ", text_of_threads(cores.threads), run.size() > 1 ? " each" : ""));
  }
  return lines;
}

std::vector<std::string> core_warnings(const std::vector<RankCores>& ranks) {
  std::vector<std::string> warnings;
  for (const auto& [name, host] : by_host(ranks)) {
    warn_of_crowding(name, host, ranks, warnings);
    warn_of_binding(name, host, ranks, warnings);
  }
  return warnings;
}

}  // namespace tessera::comm
