// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/comm/launch.hpp"

#include <mpi.h>

#include <cstdlib>

#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"

namespace tessera::comm {
namespace {

#ifdef OPEN_MPI
constexpr const char* kSlurmPlugin = "pmix";
#else
constexpr const char* kSlurmPlugin = "pmi2";
#endif

std::int64_t integer(const Variables& variables, const std::string& name) {
  const auto text = variables(name);
  std::int64_t value = 0;
  return text && parse_integer(*text, value) ? value : 0;
}

/// How many processes Slurm started in this step; 1 in a batch script or an interactive shell,
/// which see the job's SLURM_NTASKS although they are alone.
std::int64_t slurm_tasks(const Variables& variables) {
  if (variables("SLURM_STEP_NUM_TASKS")) return integer(variables, "SLURM_STEP_NUM_TASKS");
  const bool in_step = variables("SLURM_STEP_ID") || integer(variables, "SLURM_PROCID") > 0;
  return in_step ? integer(variables, "SLURM_NTASKS") : 1;
}

bool launcher_speaks(const Variables& variables) {
  for (const char* name : {"PMI_FD", "PMI_PORT", "PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_SIZE"})
    if (variables(name)) return true;
  return false;
}

}  // namespace

Variables process_variables() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value ? std::optional<std::string>(value) : std::nullopt;
  };
}

void check_launch(const Variables& variables, std::optional<int> size) {
  if (!size && launcher_speaks(variables)) return;
  if (size.value_or(1) != 1) return;
  const std::int64_t pmi = integer(variables, "PMI_SIZE");
  if (pmi == 1) return;  // mpiexec -n 1, perhaps inside a larger Slurm step
  check_user(pmi < 2, "this process is alone, but its launcher says that it started ", pmi,
             " (PMI_SIZE): the mpiexec or srun plugin is not one that Tessera's MPI understands; "
             "use the mpiexec of the MPI that Tessera was built with, or srun --mpi=",
             kSlurmPlugin);
  const std::int64_t open_mpi = integer(variables, "OMPI_COMM_WORLD_SIZE");
  check_user(open_mpi < 2, "this process is alone, but Open MPI's mpiexec started ", open_mpi,
             " (OMPI_COMM_WORLD_SIZE): Tessera was built with another MPI; use that one's mpiexec, "
             "or srun --mpi=",
             kSlurmPlugin);
  const std::int64_t tasks = slurm_tasks(variables);
  check_user(tasks < 2, "this process is alone, but Slurm started ", tasks,
             " of them in this step, and MPI was not told of the others; start them with srun "
             "--mpi=",
             kSlurmPlugin, " (srun --mpi=list shows what this Slurm has), or with mpiexec -n ",
             tasks);
}

}  // namespace tessera::comm
