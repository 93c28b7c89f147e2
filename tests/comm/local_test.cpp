// SPDX-License-Identifier: BSD-3-Clause
#include <csignal>
#include <thread>

#include "comm/staging.hpp"
#include "support/catch.hpp"
#include "tessera/base/error.hpp"
#include "tessera/comm/agree.hpp"
#include "tessera/comm/cores.hpp"
#include "tessera/comm/launch.hpp"
#include "tessera/comm/mpi_collectives.hpp"
#include "tessera/comm/signals.hpp"

using namespace tessera;
using comm::RankCores;

namespace {

/// The message of the UserError that the launch check throws, or "".
std::string launch_error(const std::map<std::string, std::string>& set, std::optional<int> size) {
  const auto variables = [&](const std::string& name) -> std::optional<std::string> {
    const auto found = set.find(name);
    return found == set.end() ? std::nullopt : std::optional(found->second);
  };
  try {
    comm::check_launch(variables, size);
    return "";
  } catch (const UserError& error) {
    return error.what();
  }
}

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("processes that Slurm started without telling MPI are refused") {
  const std::map<std::string, std::string> step{{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "2"}};
  for (std::optional<int> size : {std::optional<int>(), std::optional<int>(1)}) {
    const auto error = launch_error(step, size);
    CHECK(holds(error, "Slurm started 4"));
    CHECK(holds(error, "--mpi="));
  }
  CHECK(launch_error(step, 4) == "");
  // The first task of a step, which a batch script resembles.
  CHECK(
      holds(launch_error({{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}, {"SLURM_STEP_ID", "0"}}, 1),
            "Slurm started 4"));
  CHECK(holds(launch_error({{"SLURM_STEP_NUM_TASKS", "3"}}, 1), "Slurm started 3"));
}

TEST_CASE("one process that is meant to be alone may run inside a larger job") {
  CHECK(launch_error({}, 1) == "");
  CHECK(launch_error({}, std::nullopt) == "");
  // A batch script, an interactive step, and mpiexec -n 1 in a step.
  CHECK(launch_error({{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}}, 1) == "");
  CHECK(launch_error({{"SLURM_NTASKS", "4"},
                      {"SLURM_PROCID", "0"},
                      {"SLURM_STEP_ID", "4294967290"},
                      {"SLURM_STEP_NUM_TASKS", "1"}},
                     1) == "");
  CHECK(launch_error({{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "1"}, {"PMI_SIZE", "1"}}, 1) == "");
}

TEST_CASE("a launcher of another MPI is named") {
  CHECK(holds(launch_error({{"PMI_SIZE", "2"}, {"PMI_RANK", "1"}}, 1), "PMI_SIZE"));
  CHECK(launch_error({{"PMI_SIZE", "2"}, {"PMI_RANK", "1"}}, std::nullopt) == "");
  CHECK(holds(launch_error({{"OMPI_COMM_WORLD_SIZE", "8"}}, 1), "Open MPI's mpiexec started 8"));
  CHECK(launch_error({{"OMPI_COMM_WORLD_SIZE", "8"}}, 8) == "");
}

TEST_CASE("core numbers are written as ranges and read back") {
  CHECK(comm::format_ranges({}) == "");
  CHECK(comm::format_ranges({3}) == "3");
  CHECK(comm::format_ranges({0, 1, 2, 5, 8, 9}) == "0-2,5,8-9");
  CHECK(comm::parse_ranges("0-2,5,8-9") == std::vector<int>{0, 1, 2, 5, 8, 9});
  CHECK(comm::parse_ranges("").empty());
  CHECK_THROWS_AS(comm::parse_ranges("1-x"), Error);
  CHECK_FALSE(comm::allowed_cores().empty());
}

TEST_CASE("ranks that take turns on cores are warned of") {
  const auto warnings = [](std::vector<RankCores> ranks) { return comm::core_warnings(ranks); };
  // Well: a shared cpuset with a core for each, own cores, own cores with threads, other hosts.
  CHECK(warnings({{"n", {0, 1}}, {"n", {0, 1}}}).empty());
  CHECK(warnings({{"n", {0}}, {"n", {1}}}).empty());
  CHECK(warnings({{"n", {0, 1}, 2}, {"n", {2, 3}, 2}}).empty());
  CHECK(warnings({{"n", {0}}, {"m", {0}}}).empty());
  CHECK(warnings({{"n", {0, 1}, 2, "spread"}}).empty());
  // Both on one core (taskset -c 0).
  auto found = warnings({{"n", {0}}, {"n", {0}}});
  REQUIRE(found.size() == 1);
  CHECK(holds(found[0], "ranks 0, 1 on n"));
  CHECK(holds(found[0], "core 0"));
  // Two of three pinned onto the same core though there are enough.
  found = warnings({{"n", {0}}, {"n", {1}}, {"n", {1}}, {"n", {2, 3}}});
  REQUIRE(found.size() == 1);
  CHECK(holds(found[0], "ranks 1, 2 on n share core 1"));
  CHECK(holds(found[0], "cores 0-3"));
  // More threads than cores in one rank, and in all.
  found = warnings({{"n", {0, 1}, 3}, {"n", {2, 3}, 1}});
  REQUIRE(found.size() == 1);
  CHECK(holds(found[0], "rank 0 on n computes with 3 threads on cores 0-1"));
  found = warnings({{"n", {0, 1}, 2}, {"n", {0, 1}, 2}});
  REQUIRE(found.size() == 1);
  CHECK(holds(found[0], "4 threads in all"));
  // OpenMP is about to put all ranks on the first core.
  found = warnings({{"n", {0, 1}, 1, "spread"}, {"n", {0, 1}, 1, "spread"}});
  REQUIRE(found.size() == 1);
  CHECK(holds(found[0], "OMP_PROC_BIND=spread"));
  CHECK(warnings({{"n", {0, 1}, 1, "false"}, {"n", {0, 1}, 1, "false"}}).empty());
}

TEST_CASE("equal neighbours share a line") {
  const auto lines = comm::describe_cores({{"n", {0, 1}, 2}, {"n", {0, 1}, 2}, {"m", {4}, 1}});
  REQUIRE(lines.size() == 2);
  CHECK(lines[0] == "ranks 0, 1 on n: cores 0-1, 2 threads each");
  CHECK(lines[1] == "rank 2 on m: core 4, 1 thread");
}

TEST_CASE("long lists of ranks stay short") {
  CHECK(comm::format_ranks({3}) == "3");
  CHECK(comm::format_ranks({1, 2, 5, 6, 7, 8, 9}) == "1, 2, 5-9");
  CHECK(comm::format_ranks({0, 2, 4, 6, 8, 10, 12, 14, 16, 18}) ==
        "0, 2, 4, 6, 8, 10, 12, 14 and 2 more");
}

TEST_CASE("a single process agrees with itself") {
  const comm::SingleProcess world;
  CHECK_NOTHROW(comm::agree(world, {}));
  CHECK_THROWS_WITH(comm::agree(world, {Status::Kind::error, "broken"}), "broken");
  CHECK_THROWS_AS(comm::agree(world, {Status::Kind::user_error, "bad key"}), UserError);
  CHECK(world.gather_text("x") == std::vector<std::string>{"x"});
  CHECK(world.broadcast_text("y") == "y");
  CHECK(world.sum({1, 2}) == std::vector<double>{1, 2});
}

TEST_CASE("stop signals leave a mark and handlers are restored") {
  CHECK(comm::parse_signals("run.stop_signals", "USR1, SIGTERM,10") ==
        std::vector<int>{SIGUSR1, SIGTERM, SIGUSR1});
  CHECK(comm::parse_signals("run.stop_signals", "").empty());
  CHECK(comm::signal_name(SIGUSR1) == "SIGUSR1");
  for (const char* bad : {"KILL", "USR3", "9", "-1", "usr1 x", "1e30"})
    CHECK_THROWS_AS(comm::parse_signals("run.stop_signals", bad), UserError);
  CHECK_THROWS_WITH(comm::parse_signals("run.stop_signals", "USR3"),
                    Catch::Matchers::StartsWith("run.stop_signals: 'USR3'"));

  std::signal(SIGUSR2, SIG_IGN);
  {
    const comm::StopSignals signals({SIGUSR1, SIGUSR2, SIGUSR2});
    CHECK(comm::pending_signal() == 0);
    std::raise(SIGUSR1);
    CHECK(comm::pending_signal() == SIGUSR1);
    std::raise(SIGUSR2);
    std::raise(SIGUSR2);
    CHECK(comm::pending_signal() == SIGUSR2);
    comm::clear_pending_signal();
    CHECK(comm::pending_signal() == 0);
    {
      const comm::StopSignals fewer({SIGUSR2});
      CHECK(std::signal(SIGUSR1, SIG_IGN) == SIG_DFL);
      std::raise(SIGUSR2);
      CHECK(comm::pending_signal() == SIGUSR2);
    }
    std::raise(SIGUSR1);
    CHECK(comm::pending_signal() == SIGUSR1);
    comm::clear_pending_signal();
  }
  CHECK(std::signal(SIGUSR2, SIG_DFL) == SIG_IGN);
}

TEST_CASE("keys of comm name what is legal") {
  CHECK(comm::parse_reduce_mode("ordered") == comm::ReduceMode::ordered);
  CHECK(comm::parse_gpu_aware("auto") == comm::GpuAware::automatic);
  CHECK_THROWS_WITH(comm::parse_reduce_mode("order"),
                    "numerics.reduce = order is not one of mpi, ordered (did you mean 'ordered'?)");
  CHECK_THROWS_AS(comm::parse_gpu_aware("yes"), UserError);
}

TEST_CASE("host memory for an empty part is no null pointer") {
  comm::Scratch scratch;
  CHECK(scratch.reserve(0) != nullptr);
  void* const some = scratch.reserve(64);
  CHECK(some != nullptr);
  CHECK(scratch.reserve(0) == some);
}
