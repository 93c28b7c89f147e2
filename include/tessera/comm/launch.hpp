// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace tessera::comm {

/// The value of an environment variable, or nothing.
using Variables = std::function<std::optional<std::string>(const std::string& name)>;
Variables process_variables();

/// Processes started by a launcher whose protocol this MPI doesn't speak are each alone and would
/// all train the same model over each other's files. UserError that says which `--mpi=` to use if
/// the launcher's variables promise more processes than `size`. Without `size` (before MPI has
/// started) it objects only if no variable is there by which MPI could learn of the others.
void check_launch(const Variables& variables, std::optional<int> size);

}  // namespace tessera::comm
