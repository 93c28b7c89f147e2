// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/comm/environment.hpp"

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <set>

#include "node_order.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"
#include "tessera/comm/abort.hpp"
#include "tessera/comm/cores.hpp"
#include "tessera/comm/launch.hpp"
#include "tessera/comm/mpi_world.hpp"

namespace tessera::comm {
namespace {

std::string host_name() {
  char name[256] = "";
  gethostname(name, sizeof(name) - 1);
  return name;
}

/// "MPICH 4.0.2" of "MPICH Version:      4.0.2\nMPICH Release date: …", or the first line.
std::string library_name() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  TESSERA_MPI(MPI_Get_library_version, text, &length);
  const auto lines = split(std::string_view(text, static_cast<std::size_t>(length)), '\n');
  if (lines.empty()) return "unknown MPI";
  const auto parts = split(lines[0], ':');
  if (parts.size() == 2 && parts[0].ends_with(" Version"))
    return concat(parts[0].substr(0, parts[0].size() - 8), " ", parts[1]);
  return trim(split(lines[0], ',')[0]);
}

/// Starts MPI unless somebody did before; true if we must end it.
bool start_mpi(int& argc, char**& argv) {
  int initialized = 0;
  MPI_Initialized(&initialized);
  if (initialized) return false;
  check_launch(process_variables(), std::nullopt);
  int provided = MPI_THREAD_SINGLE;
  TESSERA_MPI(MPI_Init_thread, &argc, &argv, MPI_THREAD_FUNNELED, &provided);
  TESSERA_CHECK(provided >= MPI_THREAD_FUNNELED,
                "this MPI allows no threads beside the one that calls it");
  int size = 1;
  TESSERA_MPI(MPI_Comm_size, MPI_COMM_WORLD, &size);
  try {
    check_launch(process_variables(), size);
  } catch (...) {
    MPI_Finalize();  // nobody to wait for: this process is alone
    throw;
  }
  return true;
}

/// Whether the ranks of a node exceed the cores that any of them may use.
bool is_crowded(const MpiWorld& node) {
  std::set<int> cores;
  for (const std::string& text : node.gather_text(format_ranges(allowed_cores())))
    for (int core : parse_ranges(text)) cores.insert(core);
  return static_cast<std::size_t>(node.size()) > cores.size();
}

}  // namespace

struct Environment::Impl {
  bool owns_mpi;
  int exceptions = std::uncaught_exceptions();
  std::string host = host_name();
  std::string library = library_name();
  int local_rank = 0;
  int ranks_on_node = 1;
  int most_ranks_on_node = 1;
  int nodes = 1;
  std::unique_ptr<MpiWorld> world;

  explicit Impl(bool owns) : owns_mpi(owns) {
    const NodeOrder order = find_node_order(MPI_COMM_WORLD);
    const Communicator sorted = sort_by_node(MPI_COMM_WORLD, order);
    count_ranks(order, sorted.rank());
    // Until it is known whether cores are short, wait as if they were.
    const Communicator node = Communicator::split_by_node(sorted.get());
    const std::vector<int> one_node(static_cast<std::size_t>(node.size()), 0);
    const bool crowded = is_crowded(MpiWorld(node.get(), Waiter(true), one_node));
    auto nodes = order.nodes;
    std::ranges::sort(nodes);
    world = std::make_unique<MpiWorld>(sorted.get(), Waiter(crowded), std::move(nodes));
  }

  void count_ranks(const NodeOrder& order, int rank) {
    nodes = std::ranges::max(order.nodes) + 1;
    std::vector<int> counts(static_cast<std::size_t>(nodes), 0);
    for (int node : order.nodes) counts[static_cast<std::size_t>(node)] += 1;
    most_ranks_on_node = std::ranges::max(counts);
    for (std::size_t r = 0; r < order.position.size(); ++r) {
      if (order.position[r] != rank) continue;
      local_rank = order.local[r];
      ranks_on_node = counts[static_cast<std::size_t>(order.nodes[r])];
    }
  }
};

Environment::Environment(int& argc, char**& argv) {
  const bool owns = start_mpi(argc, argv);
  TESSERA_MPI(MPI_Comm_set_errhandler, MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  TESSERA_MPI(MPI_Comm_set_errhandler, MPI_COMM_SELF, MPI_ERRORS_RETURN);
  impl_ = std::make_unique<Impl>(owns);
  set_message_rank(rank());
}

Environment::~Environment() {
  const bool unwinding = std::uncaught_exceptions() > impl_->exceptions;
  const bool owns = impl_->owns_mpi;
  if (unwinding) {
    // Freeing communicators may wait for other ranks too.
    static_cast<void>(impl_.release());
    return;
  }
  impl_.reset();
  if (owns) MPI_Finalize();
}

const World& Environment::world() const {
  return *impl_->world;
}
std::unique_ptr<World> Environment::part(int first, int count) const {
  const MpiWorld& all = *impl_->world;
  TESSERA_CHECK(all.rank() >= first && all.rank() < first + count, "a part without this rank");
  const Communicator made = Communicator::split(all.communicator(), first, all.rank());
  const auto begin = all.nodes().begin() + first;
  return std::make_unique<MpiWorld>(made.get(), all.waiter(),
                                    std::vector<int>(begin, begin + count));
}
int Environment::local_rank() const {
  return impl_->local_rank;
}
int Environment::ranks_on_node() const {
  return impl_->ranks_on_node;
}
int Environment::most_ranks_on_node() const {
  return impl_->most_ranks_on_node;
}
int Environment::nodes() const {
  return impl_->nodes;
}
const std::string& Environment::host() const {
  return impl_->host;
}
bool Environment::crowded() const {
  return impl_->world->waiter().crowded();
}
const std::string& Environment::library() const {
  return impl_->library;
}

Environment::CoreReport Environment::report_cores(int threads) const {
  const char* binding = std::getenv("OMP_PROC_BIND");
  const auto hosts = world().gather_text(host());
  const auto cores = world().gather_text(format_ranges(allowed_cores()));
  const auto all_threads = world().gather_integer(threads);
  const auto bindings = world().gather_text(binding ? binding : "");
  std::vector<RankCores> ranks;
  for (std::size_t r = 0; r < hosts.size(); ++r)
    ranks.push_back(
        {hosts[r], parse_ranges(cores[r]), static_cast<int>(all_threads[r]), bindings[r]});
  return {describe_cores(ranks), core_warnings(ranks)};
}

}  // namespace tessera::comm
